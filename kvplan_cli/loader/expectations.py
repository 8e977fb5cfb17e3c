"""The ``expect:`` part of a plan file: what a gate demands of the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems, kind_of, nearest, printable, shown
from kvplan_cli.loader.request_mix import read_mix_value
from kvplan_cli.loader.sizes import parse_engine_integer, parse_length, parse_size
from kvplan_cli.results_solve import Requests
from kvplan_cli.values import dataclass

Expected = int | float | tuple[Requests, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One demand.

    name: dashed. value: tokens, blocks, bytes, cards, requests or a fraction, by the name.
    path, key: the file that demands it, and the key path in it.
    """

    name: str
    value: Expected
    path: Path
    key: str


def _concurrency(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**12:
        raise _fault(where, f"expected requests at a time above 0, got {shown(value)}")
    return float(value)


def _count(noun: str) -> Callable[[Any, str], int]:
    def read(value: Any, where: str) -> int:
        number = parse_engine_integer(value, where)
        if not 0 < number < 1 << 60:
            raise _fault(where, f"expected a number of {noun} above 0, got {shown(value)}")
        return number

    return read


def _length(value: Any, where: str) -> int:
    length = parse_length(value, where)
    if length == AUTO_MAX_MODEL_LEN:
        raise _fault(where, "auto is no expectation", "give the least length in tokens")
    return length


def _utilization(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise _fault(where, f"expected a number above 0 and up to 1, got {shown(value)}")
    return float(value)


EXPECTATIONS: Final[Mapping[str, Callable[[Any, str], Expected]]] = {
    "min-concurrency": _concurrency,
    "min-max-model-len": _length,
    "min-longest-context": _length,
    "min-kv-tokens": _count("tokens"),
    "min-num-blocks": _count("blocks"),
    "min-kv-mem": parse_size,
    "requests": read_mix_value,
    "max-gpu-memory-utilization": _utilization,
    "max-gpus": _count("cards"),
}


def read_expectations(value: Any, where: str) -> dict[str, Expected | None]:
    """The expectations by their dashed names; None for those that are null.

    InputError names all faults at once.
    """
    if not isinstance(value, Mapping):
        raise _fault(where, f"expected an object, got {kind_of(value)}")
    problems = Problems()
    result: dict[str, Expected | None] = {}
    for key, wanted in value.items():
        name = str(key).replace("_", "-")
        place = f"{where}.{printable(str(key), 60)}"
        if name not in EXPECTATIONS:
            near = nearest(name, EXPECTATIONS)
            known = f"known: {', '.join(EXPECTATIONS)}"
            problems.add(place, "no such expectation", f"did you mean {near}?" if near else known)
            continue
        if name in result:
            problems.add(place, "stands there twice, in two spellings")
        with problems.collecting():
            result[name] = None if wanted is None else EXPECTATIONS[name](wanted, place)
    problems.finish()
    return result


def _fault(where: str, reason: str, way_out: str | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
