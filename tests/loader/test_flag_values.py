"""Engine flags: read as the engine reads them, all faults at once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.loader.flag_values import (
    COMMAND_LINE,
    engine_args,
    engine_args_from,
    is_known_flag,
    merge,
    read_flags,
)
from kvplan_cli.loader.flags import FLAGS, FlagKind
from tests.loader.faults import problem, problems


def test_every_flag_is_a_field_of_the_engines_arguments() -> None:
    names = {field.name for field in fields(EngineArgs)}
    others = {"env", "usage_context", "draft_name", "draft_files"}
    assert {flag.name for flag in FLAGS} == names - others


def test_every_kind_is_converted() -> None:
    assert {flag.kind for flag in FLAGS} == set(FlagKind)


def test_serve_yaml_is_read_unchanged() -> None:
    args = engine_args_from(
        {
            "tensor-parallel-size": 4,
            "pipeline_parallel_size": "2",
            "max-model-len": "128K",
            "gpu-memory-utilization": 0.9,
            "kv-cache-dtype": "fp8",
            "max-num-batched-tokens": "8k",
            "enable-prefix-caching": False,
            "enable-hybrid-kv-cache-manager": True,
            "attention-backend": "flash_attn",
            "kv-cache-memory-bytes": "10G",
            "hf-overrides": {"rope_theta": 1.0},
            "kv-cache-dtype-skip-layers": [0, "sliding_window"],
            "port": 8000,
            "enable-auto-tool-choice": True,
            "quantization": None,
        },
        "serve.yaml",
    )
    assert args == EngineArgs(
        tensor_parallel_size=4,
        pipeline_parallel_size=2,
        max_model_len=131072,
        gpu_memory_utilization=0.9,
        kv_cache_dtype="fp8",
        max_num_batched_tokens=8000,
        enable_prefix_caching=False,
        disable_hybrid_kv_cache_manager=False,
        attention_backend="FLASH_ATTN",
        kv_cache_memory_bytes=10 << 30,
        hf_overrides={"rope_theta": 1.0},
        kv_cache_dtype_skip_layers=("0", "sliding_window"),
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("no-enable-prefix-caching", True, {"enable_prefix_caching": False}),
        ("disable-prefix-caching", True, {"enable_prefix_caching": False}),
        ("no-enforce-eager", True, {"enforce_eager": False}),
        ("device-memory-utilization", 0.5, {"gpu_memory_utilization": 0.5}),
        ("max_model_len", "auto", {"max_model_len": -1}),
        ("kv-cache-memory-bytes", "1.001GB", {"kv_cache_memory_bytes": 1_001_000_000}),
        ("hf-overrides", '{"a": 1}', {"hf_overrides": {"a": 1}}),
        ("speculative-config.method", "mtp", {"speculative_config": {"method": "mtp"}}),
        ("speculative_config.a.b", 1, {"speculative_config": {"a": {"b": 1}}}),
        ("spec-tokens", 3, {"speculative_config": {"num_speculative_tokens": 3}}),
        ("kv-cache-dtype-skip-layers", "0", {"kv_cache_dtype_skip_layers": ("0",)}),
    ],
)
def test_the_engines_other_spellings(name: str, value: Any, expected: dict[str, Any]) -> None:
    assert read_flags({name: value}, "f").values == expected


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("tensor-parallel-size", 0, "below the least, 1"),
        ("tensor-parallel-size", -4, "below the least, 1"),
        ("tensor-parallel-size", 10**9, "above anything sensible"),
        ("tensor-parallel-size", 1.5, "expected a whole number"),
        ("tensor-parallel-size", True, "expected a whole number"),
        ("tensor-parallel-size", "four", "expected a whole number"),
        ("block-size", 10**30, "above anything sensible"),
        ("gpu-memory-utilization", 0, "out of range"),
        ("gpu-memory-utilization", 1.01, "out of range"),
        ("gpu-memory-utilization", float("nan"), "out of range"),
        ("gpu-memory-utilization", "90%", "expected a number"),
        ("kv-cache-memory-bytes", "80", "less than one mebibyte"),
        ("kv-cache-memory-bytes", "8k", "less than one mebibyte"),
        ("max-num-seqs", "nan", "expected a whole number"),
        ("max-num-batched-tokens", "8kk", "not a whole number"),
        ("max-model-len", "0", "a length of 0 tokens"),
        ("enforce-eager", "true", "expected true or false"),
        ("dtype", "fp7", "not a legal value"),
        ("dtype", 16, "expected text"),
        ("kv-cache-dtype", ["fp8"], "expected text"),
        ("hf-overrides", "[1]", "expected an object, got a list"),
        ("hf-overrides", "{a", "not JSON"),
        ("hf-overrides", '{"a": NaN}', "NaN"),
        ("kv-cache-dtype-skip-layers", [True], "expected a list of texts"),
        ("hf-overrides.a", [1], ""),
    ],
)
def test_a_wrong_value_says_why(name: str, value: Any, reason: str) -> None:
    if not reason:
        assert read_flags({name: value}, "f").values
        return
    found = problem(read_flags, {name: value}, "serve.yaml")
    assert found.where == f"serve.yaml: {name}"
    assert reason in found.reason


def test_an_illegal_choice_shows_the_legal_ones() -> None:
    found = problem(read_flags, {"kv-cache-dtype": "fp7"}, "f")
    assert "did you mean fp8?" in (found.way_out or "")
    assert "int8_per_token_head" in (found.way_out or "")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("tensor-parallel-siz", "tensor-parallel-size"),
        ("max_model_length", "max-model-len"),
        ("tp", "tensor-parallel-size"),
        ("gpu-mem-utilization", "gpu-memory-utilization"),
        ("tool-call-parsr", "tool-call-parser"),
    ],
)
def test_an_unknown_flag_names_the_nearest(name: str, near: str) -> None:
    found = problem(read_flags, {name: 1}, "serve.yaml")
    assert found.reason == "the engine has no such flag"
    assert found.way_out == f"did you mean {near}?"


def test_all_faults_come_at_once() -> None:
    mapping = {"tp": 4, "block-size": -1, "dtype": "fp7", "max-num-seqs": 1}
    assert len(problems(read_flags, mapping, "f")) == 3


def test_contradictions_are_found() -> None:
    mapping: dict[str, Any] = {"enforce-eager": True, "no-enforce-eager": True}
    assert "contradicts f: enforce-eager" in problem(read_flags, mapping, "f").reason
    mapping = {"max-model-len": 1, "max_model_len": 2}
    assert "contradicts" in problem(read_flags, mapping, "f").reason
    mapping = {"speculative-config": {"method": "mtp"}, "spec-method": "eagle"}
    assert "excludes" in problem(read_flags, mapping, "f").reason


def test_flags_that_are_not_modelled_are_kept_by_their_effect() -> None:
    flags = read_flags(
        {
            "enable-eplb": True,
            "port": 1,
            "enable-dbo": False,
            "convert": "none",
            "compilation-config.mode": 3,
            "compilation-config.cudagraph_capture_sizes": [1, 2],
            "no-swa-bounded-replay": True,
            "kv-transfer-config": {"kv_connector": "LMCacheConnectorV1"},
        },
        "serve.yaml",
    )
    read = {"mode": 3, "cudagraph_capture_sizes": [1, 2]}
    assert flags.values == {"compilation_config": read}
    assert flags.unestimated == (
        "serve.yaml: enable-eplb",
        "serve.yaml: compilation-config.cudagraph_capture_sizes",
    )
    assert flags.ignored == (
        "serve.yaml: port",
        "serve.yaml: enable-dbo",
        "serve.yaml: convert",
    )
    assert flags.refused == (
        "serve.yaml: no-swa-bounded-replay",
        "serve.yaml: kv-transfer-config",
    )


def test_a_rank_of_adapters_is_one_of_the_engines() -> None:
    assert read_flags({"max-lora-rank": "320"}, "f").values == {"max_lora_rank": 320}
    found = problem(read_flags, {"max-lora-rank": 24}, "f")
    assert found.reason == "24 is not a legal value"
    assert found.way_out == "legal: 1, 8, 16, 32, 64, 128, 256, 320, 512"


def test_the_command_line_wins_over_a_file() -> None:
    file = read_flags({"max-model-len": 1000, "block-size": 32}, "plan.yaml: serve")
    line = read_flags({"max_model_len": "2k", "dtype": None}, COMMAND_LINE)
    both = merge(file, line)
    assert engine_args(both) == EngineArgs(max_model_len=2000, block_size=32)
    assert both.origins == {
        "max_model_len": "--max-model-len",
        "block_size": "plan.yaml: serve: block-size",
    }
    assert engine_args(both.without("block_size")).block_size is None


def test_the_command_lines_faults_name_the_option() -> None:
    assert problem(read_flags, {"block_size": 0}, COMMAND_LINE).where == "--block-size"


def test_a_given_object_is_not_shared() -> None:
    overrides = {"a": 1}
    read_flags({"hf-overrides": overrides, "hf-overrides.b": 2}, "f")
    assert overrides == {"a": 1}


def test_negations_of_other_flags_are_known() -> None:
    assert is_known_flag("no-enable-lora")
    assert is_known_flag("disable-auto-tool-choice")
    assert is_known_flag("compilation_config.level")
    assert not is_known_flag("enable-everything")


def test_names_are_shown_without_control_characters() -> None:
    found = problem(read_flags, {"\x1b[31m[red]x": 1}, "f")
    assert found.where.isprintable()
