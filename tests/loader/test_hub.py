"""Hub ids, in processes of their own: the hub library reads its environment at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loader.builders import CONFIG
from tests.loader.hub_server import COMMIT, hub

_LOAD = """
import json, sys
from kvplan_cli.errors import KvplanError
from kvplan_cli.loader.load import load
try:
    source = load(sys.argv[1]).source
    print(json.dumps({"config": source.config, "extra": source.extra_files,
                      "index": bool(source.checkpoint), "origin": str(source.origin)}))
except KvplanError as error:
    print(json.dumps({"exit": int(error.exit_code), "error": str(error)}))
"""


def _load(hub_id: str, cache: Path, endpoint: str, **environment: str) -> dict[str, Any]:
    env = {**os.environ, "HF_HOME": str(cache), "HF_ENDPOINT": endpoint, **environment}
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, hub_id],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


_FILES = {
    "config.json": json.dumps(CONFIG).encode(),
    "tokenizer_config.json": b'{"model_max_length": 77, "other": 1}',
    "model.safetensors.index.json": b'{"metadata": {"total_size": 9}, "weight_map": {}}',
}


def test_a_repository_then_its_cache(tmp_path: Path) -> None:
    with hub(_FILES) as endpoint:
        answer = _load("org/tiny", tmp_path, endpoint)
    assert answer["config"] == CONFIG
    assert answer["extra"] == {"tokenizer_config.json": {"model_max_length": 77}}
    assert answer["index"]
    assert answer["origin"] == f"hub org/tiny/config.json (revision main, commit {COMMIT[:12]})"
    # The hub is gone now: once by its silence, once because the user says so.
    for environment in ({}, {"HF_HUB_OFFLINE": "1"}):
        cached = _load("org/tiny", tmp_path, endpoint, **environment)
        assert cached["config"] == CONFIG
        assert "from the local cache" in cached["origin"]


def test_mistral_s_own_file_counts_beside_its_own_weights(tmp_path: Path) -> None:
    params = json.dumps({"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2}).encode()
    both = {**_FILES, "params.json": params}
    own = {**both, "consolidated.safetensors.index.json": b"{}"}
    alone = {"params.json": params}
    for number, (files, read) in enumerate(
        ((both, "config.json"), (own, "params.json"), (alone, "params.json"))
    ):
        with hub(files) as endpoint:
            answer = _load("org/tiny", tmp_path / str(number), endpoint)
        assert answer["origin"].startswith(f"hub org/tiny/{read} ")
        named = CONFIG["architectures"] if read == "config.json" else ["MistralForCausalLM"]
        assert answer["config"]["architectures"] == named


def test_no_network_is_an_ending_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    answer = _load("Qwen/Qwen3-8B", tmp_path, "http://127.0.0.1:9")
    assert answer["exit"] == 3
    assert "can't be reached" in answer["error"]
    assert "kvplan brings this model as qwen3-8b" in answer["error"]
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "GatedRepo", "the repository is gated"),
        (401, "RepoNotFound", "no such repository"),
        (404, "RepoNotFound", "no such repository"),
        (404, "RevisionNotFound", "no revision"),
        (404, "EntryNotFound", "has no config.json"),
        (500, "", "can't be reached: it answers 500 Internal Server Error"),
        (429, "", "can't be reached: it answers 429 Too Many Requests"),
        (401, "", "denies params.json: 401 Unauthorized (check HF_TOKEN"),
        (403, "", "403 Forbidden (check HF_TOKEN"),
    ],
)
def test_a_refusal_says_why_and_the_way_out(
    tmp_path: Path, status: int, code: str, reason: str
) -> None:
    with hub({}, status=status, error_code=code) as endpoint:
        answer = _load("org/tiny", tmp_path, endpoint)
    assert answer["exit"] == 3
    assert reason in answer["error"]
    assert "(" in answer["error"]


def test_an_offline_switch_is_named(tmp_path: Path) -> None:
    answer = _load("org/tiny", tmp_path, "http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert "not in the local cache and HF_HUB_OFFLINE is set" in answer["error"]


def test_a_plan_does_without_an_index_that_is_gated(tmp_path: Path) -> None:
    with hub(_FILES, gated=frozenset({"model.safetensors.index.json"})) as endpoint:
        answer = _load("org/tiny", tmp_path, endpoint)
    assert answer["config"] == CONFIG
    assert not answer["index"]
