"""JSON text to plain values, strictly: no duplicate keys, no NaN, no endless nesting."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import printable, shown

MAX_DEPTH: Final = 64
_UNBOUNDED: Final = math.inf


class _BadValueError(ValueError):
    """A value that JSON as such would let pass."""


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text. InputError with the place and what is wrong there."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_finite,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _fault(where, f"not JSON: {printable(error.msg)} at {place}") from None
    except RecursionError:
        raise _too_deep(where) from None
    except _BadValueError as error:
        raise _fault(where, str(error)) from None
    except ValueError:
        raise _fault(where, "a number of absurd length") from None
    check_plain(value, where)
    return value


def check_plain(value: Any, where: str) -> None:
    """InputError where nesting passes MAX_DEPTH or text holds half a surrogate pair."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level for child in _children(item, where)]
        if not level:
            return
    raise _too_deep(where)


def _children(item: Any, where: str) -> list[Any]:
    if isinstance(item, str):
        if not item.isascii():
            _check_text(item, where)
        return []
    if isinstance(item, Mapping):
        return [*item.keys(), *item.values()]
    return item if isinstance(item, list) else []


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _fault(where, f"{shown(text)} is not valid Unicode") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if _UNBOUNDED in result.values():
        raise _BadValueError("Infinity is not a value that a plan can use")
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _BadValueError(f"the key {shown(key)} stands there twice")
            seen.add(key)
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _BadValueError(f"the number {shown(text)} is too large")
    return number


def _constant(name: str) -> float:
    """Infinity ends ranges in lists, as in Mamba's ``time_step_limit``; nothing else may be it."""
    if name == "Infinity":
        return _UNBOUNDED
    raise _BadValueError(f"{name} is not a value that a plan can use")


def _fault(where: str, reason: str) -> InputError:
    return InputError(Problem(where=where, reason=reason))


def _too_deep(where: str) -> InputError:
    return InputError(
        Problem(
            where=where,
            reason=f"nested more than {MAX_DEPTH} levels deep",
            way_out="no model's config is; check that this is the right file",
        )
    )
