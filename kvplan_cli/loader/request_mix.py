"""A mix of requests, as ``--requests`` and a plan file's ``expect:`` write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems, kind_of, shown
from kvplan_cli.loader.sizes import parse_engine_integer, parse_length
from kvplan_cli.results_solve import Requests

MOST_REQUESTS: Final = 1 << 30
_FORM: Final = "tokens:count, as in 4096:100"


def read_mix(text: str, where: str) -> tuple[Requests, ...]:
    """``4096:100,131072:2``, tokens and count; a count of 1 may be left out.

    Raises: InputError with the faults of all parts.
    """
    problems = Problems()
    mix = []
    for part in text.split(","):
        tokens, colon, number = part.strip().partition(":")
        with problems.collecting():
            mix.append(_requests(tokens, number if colon else 1, where, shown(part)))
    problems.finish()
    return tuple(mix)


def read_mix_value(value: Any, where: str) -> tuple[Requests, ...]:
    """A mix in a file: the same text, or an object of tokens to count.

    A bare number is refused: YAML 1.1 reads ``4096:10`` as one, to the base of sixty.
    """
    if isinstance(value, Mapping) and value:
        problems, mix = Problems(), []
        for tokens, number in value.items():
            with problems.collecting():
                mix.append(_requests(tokens, number, where, f"{shown(tokens)}: {shown(number)}"))
        problems.finish()
        return tuple(mix)
    if isinstance(value, str):
        return read_mix(value, where)
    reason = f"expected requests, got {kind_of(value)}"
    way_out = 'an object {4096: 100, 131072: 2}, or a quoted text "4096:100,131072:2"'
    raise InputError(Problem(where=where, reason=reason, way_out=way_out))


def _requests(tokens: object, number: object, where: str, part: str) -> Requests:
    length = parse_length(tokens, where)
    count = parse_engine_integer(number, where)
    if length < 1 or not 1 <= count <= MOST_REQUESTS:
        raise InputError(Problem(where=where, reason=f"{part} is no request", way_out=_FORM))
    return Requests(tokens=length, count=count)
