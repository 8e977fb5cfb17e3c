"""``import kvplan_cli``: the commands as calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import kvplan_cli
from kvplan_cli.library_question import Question
from kvplan_cli.loader.flags import FLAGS
from kvplan_cli.results import FitRequest
from kvplan_cli.units import GIB
from tests.cli.process import ROOT, environment, kvplan

EXAMPLES = Path(ROOT) / "examples"
HEAVY = {"typer", "rich", "yaml", "transformers", "huggingface_hub", "numpy", "json"}


def loaded(script: str) -> set[str]:
    """The modules that a script leaves imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport sys\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=True,
    )
    return set(done.stderr.split())


def test_the_import_brings_nothing_along() -> None:
    modules = loaded("import kvplan_cli")
    assert not modules & HEAVY
    assert {name for name in modules if name.startswith("kvplan_cli.")} == set()


def test_a_call_needs_no_console() -> None:
    script = "import kvplan_cli; kvplan_cli.fit('llama-3.1-8b', kv_mem='40GiB')"
    assert not loaded(script) & {"typer", "rich", "yaml", "transformers"}


def test_every_name_is_there() -> None:
    assert all(hasattr(kvplan_cli, name) for name in kvplan_cli.__all__)
    assert dir(kvplan_cli) == sorted(kvplan_cli.__all__)
    assert all(getattr(kvplan_cli, name).__doc__ for name in kvplan_cli.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        kvplan_cli.nothing  # noqa: B018


def test_a_question_types_every_modelled_flag() -> None:
    names = set(get_type_hints(Question))
    assert {flag.name for flag in FLAGS} <= names
    own = names - {flag.name for flag in FLAGS}
    fields = set(FitRequest.__dataclass_fields__)
    assert {name for name in own if name not in fields and f"{name}_bytes" not in fields} == set()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"kv_mem": "40GiB", "tensor_parallel_size": 2}, "--kv-mem 40GiB -tp 2"),
        (
            {"kv_mem": [40 * GIB, "41GiB"], "pipeline_parallel_size": 2},
            "--kv-mem 40GiB,41GiB -pp 2",
        ),
        ({"gpu": "h100", "max_model_len": "auto"}, "--gpu h100 --max-model-len auto"),
        ({"gpu_mem": "79.19GiB", "weights": "15GiB"}, "--gpu-mem 79.19GiB --weights 15GiB"),
        (
            {"kv_mem": "8GiB", "hf_overrides": {"rope_theta": 1e6}},
            "--kv-mem 8GiB --hf-overrides.rope_theta 1e6",
        ),
        ({"kv_mem": "8GiB", "engine_version": "0.32.0"}, "--kv-mem 8GiB --engine-version 0.32.0"),
    ],
)
def test_fit_answers_as_the_command_does(question: dict[str, Any], words: str) -> None:
    told = json.loads(kvplan("fit", "llama-3.1-8b", *words.split(), "--json").stdout)
    assert json.loads(kvplan_cli.fit("llama-3.1-8b", **question).to_json()) == told


def test_a_serve_command_as_text_and_as_words() -> None:
    text = kvplan_cli.fit(command="vllm serve Qwen/Qwen3-8B -tp 2 --port 80", kv_mem="8GiB")
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "-tp", "2", "--port", "80"]
    assert text == kvplan_cli.fit(command=words, kv_mem="8GiB")
    assert text.settings is not None
    assert text.settings.tensor_parallel_size == 2


def test_explain() -> None:
    answer = kvplan_cli.explain("llama-3.1-8b", kv_mem="40GiB")
    assert answer.fit == kvplan_cli.fit("llama-3.1-8b", kv_mem="40GiB")
    assert json.loads(answer.to_json())["command"] == "explain"


def test_solve() -> None:
    answer = kvplan_cli.solve("llama-3.1-8b", "gpu-memory-utilization", gpu="h100", concurrency=2)
    assert answer.text == "0.66"
    mix = {"kv_mem": "12GiB", "quantity": "max-num-seqs"}
    by_mapping = kvplan_cli.solve("llama-3.1-8b", requests={4096: 10}, **mix)  # type: ignore[arg-type]
    assert by_mapping == kvplan_cli.solve("llama-3.1-8b", requests="4096:10", **mix)  # type: ignore[arg-type]
    with pytest.raises(kvplan_cli.InputError, match="max-model-len"):
        kvplan_cli.solve("llama-3.1-8b", "max-modle-len", kv_mem="8GiB")


def test_sweep() -> None:
    answer = kvplan_cli.sweep(
        "llama-3.1-8b",
        {"tensor_parallel_size": [1, 2], "max_model_len": "8k..32k*2"},
        kv_mem="8GiB",
        where=["max_concurrency>=4"],
        sort="-max_concurrency",
    )
    assert answer.points_total == 6
    concurrency = [row.max_concurrency_requests for row in answer.rows]
    assert concurrency == sorted((c for c in concurrency if c is not None), reverse=True)


def test_verify() -> None:
    answer = kvplan_cli.verify(EXAMPLES / "serve.log", "llama-3.1-8b")
    assert answer.exit_code == 0


def test_diff() -> None:
    a = kvplan_cli.request("llama-3.1-8b", kv_mem="40GiB")
    b = kvplan_cli.request("llama-3.1-8b", kv_mem="40GiB", kv_cache_dtype="fp8")
    changes = {change.key: change for change in kvplan_cli.diff(a, b).changes}
    assert changes["verdict.max_concurrency_requests"].change_ratio == 1.0
    assert kvplan_cli.diff(a, a).changes == ()


def test_gate(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("model: llama-3.1-8b\nkv-mem: 40GiB\nexpect: {min-concurrency: 2}\n")
    assert kvplan_cli.gate(file).exit_code == 0
    file.write_text(file.read_text().replace("2}", "3}"))
    assert kvplan_cli.gate([str(file)]).exit_code == 1


def test_all_faults_of_a_question_at_once() -> None:
    wrong: dict[str, Any] = {"kv_mem": "40", "gpu_mem": "x", "tensor_parallel_siz": 2}
    with pytest.raises(kvplan_cli.InputError) as caught:
        kvplan_cli.fit("llama-3.1-8b", **wrong)
    assert [problem.where for problem in caught.value.problems] == [
        "kv_mem",
        "gpu_mem",
        "--tensor-parallel-siz",
    ]


def test_this_process_lends_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_KV_CACHE_LAYOUT", "HND")
    own = kvplan_cli.fit("llama-3.1-8b", kv_mem="40GiB")
    asked = kvplan_cli.fit("llama-3.1-8b", kv_mem="40GiB", env={"VLLM_KV_CACHE_LAYOUT": "HND"})
    assert own.plan is not None
    assert asked.plan is not None
    assert (own.plan.layout, asked.plan.layout) == ("LBNHC", "LBHNC")
