"""Counted weights equal those that the engine built, for every kind of vector."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import pytest

from kvplan_cli.errors import UnplannableError
from tests.memory.vector_weights import (
    DRAFTERS,
    NEAR,
    answered_cases,
    counted,
    counted_drafter,
    drafter_cases,
    model_files,
)

# Cases that are not met, and why.
_NOT_MET: Final = {
    "mk_internvlchat_text__attention_backend=TRITON_ATTN": "tied by its class alone, which the "
    "engine does not pass on to these experts",
    "mk_internvlchat_text__pipeline_parallel_size=2": "the same",
    "Isaac-2__plain@h100": "as many words as its class has by default: the engine reads them "
    "of the root, which states none",
    "Isaac-2__pp2_nopc@h100": "the same",
    "Isaac-2__auto@l4": "the same",
}
# Formats that are held to the byte; of others only the size is.
_TO_THE_BYTE: Final = frozenset(
    {None, "fp8", "modelopt", "gpt_oss_mxfp4", "deepseek_v4_fp8", "compressed-tensors", "mxfp4"}
)


def _kind(case: Mapping[str, Any]) -> tuple[object, ...]:
    """Cases of one kind differ in nothing that shares weights out."""
    resolved = case["resolved"]
    return (
        resolved["architecture"],
        resolved["quantization"],
        resolved["tp"],
        resolved["pp"] > 1,
        resolved["ep"],
        case["gpu"]["capability"][0],
        case["name"].split("__")[0],
    )


@cache
def _one_of_each_kind() -> tuple[Mapping[str, Any], ...]:
    chosen: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for name in model_files():
        for case in answered_cases(name):
            dropped = ("results", "config_log", "global_groups")
            kept = {key: value for key, value in case.items() if key not in dropped}
            chosen.setdefault(_kind(case), kept)
    return tuple(chosen.values())


def _met(case: Mapping[str, Any]) -> bool | None:
    """Whether the count is the engine's; None for an architecture that is not described."""
    try:
        found = counted(case)
    except UnplannableError:
        return None
    exact = case["resolved"]["quantization"] in _TO_THE_BYTE
    return all(
        abs(a - b) <= (0 if exact else NEAR * b)
        for a, b in zip(found, case["weights_bytes"], strict=True)
    )


def test_the_vectors_have_many_kinds() -> None:
    cases = _one_of_each_kind()
    assert len(cases) >= 1500
    assert len({case["resolved"]["architecture"] for case in cases}) >= 250


@pytest.mark.parametrize("part", range(16))
def test_weights_equal_the_engines(part: int) -> None:
    wrong = [
        case["name"]
        for case in _one_of_each_kind()[part::16]
        if case["name"] not in _NOT_MET and _met(case) is False
    ]
    assert not wrong


def test_what_is_not_met_is_named_for_as_long_as_it_is_not() -> None:
    named = [case for case in _one_of_each_kind() if case["name"] in _NOT_MET]
    assert [case["name"] for case in named if _met(case)] == []


def test_most_architectures_of_the_vectors_are_described() -> None:
    first: dict[str, Mapping[str, Any]] = {}
    for case in _one_of_each_kind():
        first.setdefault(case["resolved"]["architecture"], case)
    described = [name for name, case in first.items() if _met(case) is not None]
    assert len(described) >= 343


@cache
def _drafters() -> tuple[Mapping[str, Any], ...]:
    """One case of a kind: a drafter's class, as its target and its split see it."""
    chosen: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for case in (case for name in DRAFTERS for case in drafter_cases(name)):
        kept = {key: value for key, value in case.items() if key not in ("results", "config_log")}
        keys = {
            key: value
            for key, value in case["engine_args"]["speculative_config"].items()
            if key != "num_speculative_tokens"
        }
        chosen.setdefault((*_kind(case), str(keys)), kept)
    return tuple(chosen.values())


def test_drafters_of_many_kinds_are_compared() -> None:
    assert len(_drafters()) >= 180


@pytest.mark.parametrize("part", range(4))
def test_drafters_weigh_what_the_engine_built(part: int) -> None:
    wrong = []
    for case in _drafters()[part::4]:
        try:
            (found,) = counted_drafter(case)
        except UnplannableError:
            continue
        if case["name"] in _NOT_MET:
            continue
        if found != case["drafter_weights_bytes"]:
            wrong.append(case["name"])
    assert not wrong
