"""Headers of real files, an index of them, and the config alone, held against the engine."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import pytest

from kvplan_cli.results import FitRequest
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.target import find_target
from kvplan_cli.service.weights import rank_weights
from tests.loader.builders import write_json, write_safetensors
from tests.memory.vector_weights import answered_cases

Headers = Mapping[str, tuple[str, list[int]]]
_FILE: Final = Path(__file__).parents[1] / "data" / "headers" / "small.json.xz"
_BYTES: Final = {"F32": 4, "I32": 4, "I64": 8, "F8_E4M3": 1, "U8": 1}
# The index's total tells sizes alone, not that the engine keeps some in another type.
_NEAR: Final = 0.015


@cache
def _headers() -> Mapping[str, Headers]:
    read: Mapping[str, Headers] = json.loads(lzma.decompress(_FILE.read_bytes()))
    return read


@cache
def _cases() -> tuple[Mapping[str, Any], ...]:
    return tuple(answered_cases("small"))


def _low(folder: Path, case: Mapping[str, Any]) -> list[int]:
    flags = dict(case["engine_args"])
    inputs = read_inputs(FitRequest(model=str(folder), flags=flags, gpu="h100"))
    target = find_target(inputs)
    assert target.source is not None
    assert target.model is not None
    return [estimate.low for estimate in rank_weights(inputs, target.source, target.model)]


def _folder(path: Path, case: Mapping[str, Any]) -> Path:
    write_json(path / "config.json", case["config"])
    return path


def test_every_file_has_its_answers() -> None:
    assert {case["name"].split("__")[0] for case in _cases()} == set(_headers())
    assert len(_headers()) >= 30


@pytest.mark.parametrize("name", sorted(_headers()))
def test_headers_are_shared_out_as_the_engine_does(name: str, tmp_path: Path) -> None:
    for case in (case for case in _cases() if case["name"].startswith(f"{name}__")):
        folder = _folder(tmp_path / case["name"], case)
        write_safetensors(folder / "model.safetensors", dict(_headers()[name]))
        assert _low(folder, case) == case["weights_bytes"], case["name"]


# Parts of an encoder that the engine leaves out are in an index's total, not told apart.
_LEFT_OUT: Final = ("small-mm-gemma3", "small-mm-llava")


@pytest.mark.parametrize("name", sorted(_headers().keys() - set(_LEFT_OUT)))
def test_an_index_comes_near_the_engine(name: str, tmp_path: Path) -> None:
    headers = _headers()[name]
    total = sum(prod(shape) * _BYTES.get(dtype, 2) for dtype, shape in headers.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict.fromkeys(headers, "a")}
    for case in (case for case in _cases() if case["name"].startswith(f"{name}__")):
        folder = _folder(tmp_path / case["name"], case)
        write_json(folder / "model.safetensors.index.json", index)
        assert _low(folder, case) == pytest.approx(case["weights_bytes"], rel=_NEAR), case["name"]
