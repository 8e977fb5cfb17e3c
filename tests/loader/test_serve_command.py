"""A serve command to a model, flags and environment."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kvplan_cli.loader.load import load_command
from kvplan_cli.loader.serve_command import ServeCommand, read_command
from tests.loader.faults import problem, problems


def command(text: str) -> ServeCommand:
    return read_command(shlex.split(text))


def test_flags_and_where_they_were_given() -> None:
    read = command(
        "VLLM_KV_CACHE_LAYOUT=NHD vllm serve org/model -tp 2 --max-model-len 128k --port 80 "
        "--spec-method ngram --spec-tokens 3"
    )
    assert read.model == "org/model"
    assert read.flags.values == {
        "tensor_parallel_size": 2,
        "max_model_len": 128_000,
        "speculative_config": {"method": "ngram", "num_speculative_tokens": "3"},
    }
    assert read.flags.origins["max_model_len"] == "serve command: max-model-len"
    assert read.flags.ignored == ("serve command: port",)
    assert read.env == {"VLLM_KV_CACHE_LAYOUT": "NHD"}


@pytest.mark.parametrize("model", ["org/m", "--model org/m", "--model=org/m"])
def test_the_model_in_any_form(model: str) -> None:
    assert command(f"vllm serve {model} -tp 2").model == "org/m"
    assert command(f"vllm serve -tp 2 {model}").model == "org/m"


def test_a_config_file_beneath_the_words(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("model: org/a\ntensor-parallel-size: 4\nmax-model-len: 1000\n")
    read = command(f"vllm serve --config {file} -tp 2")
    assert read.model == "org/a"
    assert read.flags.values == {"tensor_parallel_size": 2, "max_model_len": 1000}
    assert read.flags.origins["max_model_len"].endswith("serve.yaml: max-model-len")
    assert command(f"vllm serve org/b --config {file}").model == "org/b"


def test_all_faults_at_once() -> None:
    found = problems(command, "vllm serve a b --zzz 1 -tp x --config none.yaml")
    assert {fault.where for fault in found} == {
        "serve command",
        "serve command: --zzz",
        "serve command: tensor-parallel-size",
        "none.yaml",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vllm serve", "names no model"),
        ("vllm serve --port 80", "names no model"),
        ("vllm bench serve", "does not start the engine"),
        ("", "is missing"),
    ],
)
def test_no_serve_command(text: str, said: str) -> None:
    assert said in problem(command, text).reason


def test_a_variable_matters_where_the_plan_depends_on_it() -> None:
    found = problem(command, "bash -c 'vllm serve org/m -tp $TP --api-key $KEY'")
    assert found.where == "serve command: tensor-parallel-size"
    assert "$TP" in found.reason


def test_a_bundled_model_by_its_hub_id() -> None:
    loaded = load_command(["vllm", "serve", "Qwen/Qwen3-8B"])
    assert loaded.name == "qwen3-8b"
    assert loaded.source is not None
    assert "Qwen/Qwen3-8B" in str(loaded.source.origin)
