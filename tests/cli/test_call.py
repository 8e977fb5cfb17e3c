"""From a call's words to a request, and all faults of a call at once."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.cli.fit import FitCall, read_call
from kvplan_cli.cli.help import fit_help
from kvplan_cli.cli.options import FIT_OPTIONS, PANELS
from kvplan_cli.errors import InputError
from kvplan_cli.loader.flags import FLAGS
from kvplan_cli.units import GIB


def call(words: str) -> FitCall:
    return read_call(words.split())


def faults(words: str) -> dict[str, tuple[str, str]]:
    with pytest.raises(InputError) as caught:
        call(words)
    return {part.where: (part.reason, part.way_out or "") for part in caught.value.problems}


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("-tp 4", {"tensor_parallel_size": 4}),
        ("-tp=4", {"tensor_parallel_size": 4}),
        ("--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
        ("--tensor_parallel_size=4", {"tensor_parallel_size": 4}),
        ("-pp 2 -dcp 2 -dp 3", None),
        ("--max-model-len 131072", {"max_model_len": 131072}),
        ("--max-model-len 128k", {"max_model_len": 128000}),
        ("--max-model-len 128K", {"max_model_len": 131072}),
        ("--max-model-len auto", {"max_model_len": -1}),
        ("--max-model-len -1", {"max_model_len": -1}),
        ("--kv-cache-memory-bytes 4GiB", {"kv_cache_memory_bytes": 4 * GIB}),
        ("--enforce-eager", {"enforce_eager": True}),
        ("--no-enforce-eager", {"enforce_eager": False}),
        ("--enable-prefix-caching", {"enable_prefix_caching": True}),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("--disable-prefix-caching", {"enable_prefix_caching": False}),
        ("-ep", {"enable_expert_parallel": True}),
        ("--kv-cache-dtype-skip-layers 0,3", {"kv_cache_dtype_skip_layers": ("0", "3")}),
        ("-tp 2 -tp 8", {"tensor_parallel_size": 8}),
    ],
)
def test_engine_flags(words: str, flags: dict[str, Any] | None) -> None:
    for order in (f"model {words}", f"{words} model"):
        request = call(order).request
        assert request.model == "model"
        if flags is not None:
            assert dict(request.flags) == flags


def test_every_flag_of_the_table_is_an_option() -> None:
    names = {option.name for option in FIT_OPTIONS}
    assert {flag.name for flag in FLAGS} <= names
    assert all(option.panel in PANELS for option in FIT_OPTIONS)


def test_no_spelling_stands_for_two_options() -> None:
    spellings = [spelling for option in FIT_OPTIONS for spelling in option.spellings]
    spellings += [option.negation for option in FIT_OPTIONS if option.negation]
    assert len(spellings) == len(set(spellings))


def test_memory() -> None:
    request = call("model --kv-mem 42.5GiB").request
    assert request.kv_mem_bytes == (int(42.5 * GIB),)
    request = call("model --kv-mem 4GiB,5GiB").request
    assert request.kv_mem_bytes == (4 * GIB, 5 * GIB)
    request = call("model --gpu-mem 80GiB --weights 15GiB --gpu h100").request
    assert (request.gpu_mem_bytes, request.weights_bytes) == (80 * GIB, (15 * GIB,))
    assert request.gpu == "h100"


def test_hf_overrides() -> None:
    words = ["model", "--hf-overrides", '{"a": 1}']
    request = read_call(words).request
    assert request.hf_overrides == {"a": 1}
    assert request.flags == {}
    dotted = [*words[:1], "--hf-overrides.text_config.b=2", "--hf-overrides.c", "x"]
    assert read_call(dotted).request.hf_overrides == {"text_config": {"b": 2}, "c": "x"}


def test_all_faults_at_once() -> None:
    found = faults(
        "model --tensor-paralel-size 4 -tp 0 --max-model-len abc --kv-mem 80 "
        "--kv-cache-dtype fpp8 --get plan.num_block --enforce-eager=yes --block-size"
    )
    assert found["--tensor-paralel-size"][1] == "did you mean --tensor-parallel-size?"
    assert "131072" in found["--max-model-len"][1]
    assert "80GiB" in found["--kv-mem"][1]
    assert "did you mean fp8?" in found["--kv-cache-dtype"][1]
    assert "plan.num_blocks" in found["--get"][1]
    assert found["--block-size"] == ("needs a value", "--block-size N")
    assert "switch" in found["--enforce-eager"][0]
    assert "--tensor-parallel-size" in found
    assert len(found) == 8


@pytest.mark.parametrize(
    ("words", "where", "dropped"),
    [
        ("m --kv-mem 4GiB --gpu-mem 80GiB", "--kv-mem and --gpu-mem", "--gpu-mem"),
        ("m --kv-mem 4GiB --weights 1GiB", "--kv-mem and --weights", "--weights"),
        (
            "m --kv-mem 4GiB --kv-cache-memory-bytes 4GiB",
            "--kv-mem and --kv-cache-memory-bytes",
            "drop one",
        ),
        ("m --json --get plan", "--json and --get", "--json"),
    ],
)
def test_contradictions_say_which_to_drop(words: str, where: str, dropped: str) -> None:
    assert dropped in faults(words)[where][1]


def test_a_value_is_never_an_option() -> None:
    assert faults("m --max-model-len --json")["--max-model-len"][0] == "needs a value"


@pytest.mark.parametrize("words", ["", "--json", "a b", "a b c"])
def test_one_model_a_call(words: str) -> None:
    assert "MODEL" in faults(words)


@pytest.mark.parametrize("words", [["", "-tp", "2"], ["  "], ["m" * 5000]])
def test_odd_models(words: list[str]) -> None:
    with pytest.raises(InputError):
        read_call(words)


def test_engine_flags_without_an_option_are_read_by_the_engines_table() -> None:
    request = call(
        "--port 8000 m --no-enable-log-requests --cpu-offload-gb=4 -O3 --served-model-name a b "
        "--kernel-config.moe_backend triton -cc.mode 3 -sc.method ngram"
    ).request
    assert request.model == "m"
    assert dict(request.flags) == {
        "port": "8000",
        "enable-log-requests": False,
        "cpu-offload-gb": "4",
        "optimization_level": 3,
        "served-model-name": ["a", "b"],
        "kernel-config": {"moe_backend": "triton"},
        "compilation_config": {"mode": 3},
        "speculative_config": {"method": "ngram"},
    }


def test_what_model_says_is_no_option() -> None:
    found = faults("m --zzz --model x --config=y")
    assert found["--zzz"][1] == "kvplan fit --help lists them all"
    assert "MODEL" in found["--model"][1]
    assert "MODEL" in found["--config"][1]


def test_a_serve_command_stands_in_place_of_model() -> None:
    serve = ["vllm", "serve", "m", "-tp", "2"]
    assert read_call(["--kv-mem", "4GiB"], serve).request.command == tuple(serve)
    with pytest.raises(InputError) as caught:
        read_call(["x"], serve)
    assert caught.value.problems[0].where == "MODEL"


def test_control_characters_of_an_option_are_shown() -> None:
    with pytest.raises(InputError) as caught:
        read_call(["m", "--\x1b[31m"])
    assert "\x1b" not in caught.value.problems[0].where


@pytest.mark.parametrize("width", [60, 80, 100])
def test_help_cuts_no_name(width: int) -> None:
    text = fit_help(width)
    for option in FIT_OPTIONS:
        for spelling in (*option.spellings, option.negation or ""):
            assert spelling in text
    assert all(f"{panel}:" in text for panel in PANELS)
    assert "…" not in text
