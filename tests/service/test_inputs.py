"""What a plan starts from, and where each value came from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import UnplannableError
from kvplan_cli.results import FitRequest
from kvplan_cli.service.fit import fit
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.units import GIB
from tests.loader.builders import write_json

QWEN = "vllm serve Qwen/Qwen3-8B"


def inputs(command: str, **fields: Any) -> Inputs:
    fields = {"kv_mem_bytes": (40 * GIB,), **fields}
    return read_inputs(FitRequest(command=tuple(shlex.split(command)), **fields))


def origins(read: Inputs) -> dict[str, str]:
    return {origin.key: origin.source for origin in read.origins}


def test_flags_beside_the_command_win() -> None:
    read = inputs(f"{QWEN} -tp 2 --max-model-len 4k", flags={"max_model_len": 2048})
    assert read.args.tensor_parallel_size == 2
    assert read.args.max_model_len == 2048
    assert origins(read)["tensor_parallel_size"] == "serve command: tensor-parallel-size"
    assert origins(read)["max_model_len"] == "--max-model-len"


def test_variables_of_the_command_win_over_the_askers() -> None:
    env = {"VLLM_KV_CACHE_LAYOUT": "NHD", "VLLM_MLA_DISABLE": "1"}
    read = inputs(f"VLLM_KV_CACHE_LAYOUT=HND {QWEN}", env=env)
    assert read.args.env == {"VLLM_KV_CACHE_LAYOUT": "HND", "VLLM_MLA_DISABLE": "1"}
    assert origins(read)["env.VLLM_KV_CACHE_LAYOUT"] == "serve command"
    assert origins(read)["env.VLLM_MLA_DISABLE"] == "environment"
    assert [n.message for n in read.notices if n.code == "environment"] == [
        "From the environment: VLLM_MLA_DISABLE=1."
    ]


def test_a_container_sees_its_own_variables() -> None:
    command = "docker run -e VLLM_MLA_DISABLE=0 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B"
    read = inputs(command, env={"VLLM_KV_CACHE_LAYOUT": "NHD"})
    assert read.args.env == {"VLLM_MLA_DISABLE": "0"}


def test_flags_without_effect_are_told() -> None:
    command = f"{QWEN} --port 80 --enable-eplb"
    codes = {notice.code: notice.message for notice in inputs(command).notices}
    assert codes["flags_ignored"] == "Without effect on the plan: --port, --enable-eplb."
    assert "flag_not_estimated" not in codes
    estimated = inputs(command, kv_mem_bytes=(), gpu="h100").notices
    codes = {notice.code: notice.message for notice in estimated}
    assert "enable-eplb" in codes["flag_not_estimated"]
    assert "enable-eplb" not in codes["flags_ignored"]


def test_mistral_s_format_is_no_news_where_its_own_file_is_read(tmp_path: Path) -> None:
    params = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16}
    write_json(tmp_path / "own" / "params.json", params)
    flags = "--config-format mistral --load-format mistral --tokenizer-mode mistral"
    read = inputs(f"vllm serve {tmp_path / 'own'} {flags}")
    assert read.source is not None
    assert read.source.config["architectures"] == ["MistralForCausalLM"]
    with pytest.raises(UnplannableError, match="config-format"):
        inputs(f"{QWEN} {flags}")


def test_flags_that_change_the_plan_and_are_not_modelled_are_refused() -> None:
    with pytest.raises(UnplannableError) as caught:
        inputs(f"{QWEN} --kv-transfer-config {{}} --convert embed")
    assert [problem.where for problem in caught.value.problems] == [
        "serve command: kv-transfer-config",
        "serve command: convert",
    ]


def test_a_command_and_a_name_plan_alike() -> None:
    flags = {"tensor_parallel_size": 2, "max_model_len": 32768}
    named = fit(FitRequest(model="qwen3-8b", flags=flags, kv_mem_bytes=(10 * GIB,)))
    command = ("vllm", "serve", "Qwen/Qwen3-8B", "-tp", "2", "--max-model-len", "32K")
    told = fit(FitRequest(command=command, kv_mem_bytes=(10 * GIB,)))
    assert told.likely == named.likely
    assert told.settings == named.settings
