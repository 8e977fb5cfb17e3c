"""Arithmetic kept as a value: worked out, written with names, and written with numbers.

A quotient is floating point, as the engine's own token and concurrency figures are; of whole
numbers below 2^52 floor and ceil of it are exact.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import reduce
from typing import Final

from kvplan_cli.values import dataclass

Number = int | float


class Sign(Enum):
    """An operation, as it is written. The last four are functions of their parts."""

    PLUS = " + "
    MINUS = " - "
    TIMES = " x "
    OVER = " / "
    CEIL = "ceil"
    FLOOR = "floor"
    MIN = "min"
    MAX = "max"


# A part that binds less than the whole stands in brackets.
_BINDING: Final = {Sign.PLUS: 1, Sign.MINUS: 1, Sign.TIMES: 2, Sign.OVER: 2}
_FUNCTION: Final = 3
_ROUNDING: Final[Mapping[Sign, Callable[[Number], int]]] = {
    Sign.CEIL: math.ceil,
    Sign.FLOOR: math.floor,
}
_JOINING: Final[Mapping[Sign, Callable[[Number, Number], Number]]] = {
    Sign.PLUS: operator.add,
    Sign.MINUS: operator.sub,
    Sign.TIMES: operator.mul,
    Sign.OVER: operator.truediv,
    Sign.MIN: min,
    Sign.MAX: max,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A number of the formula. name: None for one that speaks for itself, as the 1 of w - 1."""

    number: Number
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on its parts, worked out from the left."""

    sign: Sign
    parts: tuple[Expression, ...]


Expression = Value | Operation


def named(name: str, number: Number) -> Value:
    """A number with its name."""
    return Value(name=name, number=number)


def plain(number: Number) -> Value:
    """A number that speaks for itself."""
    return Value(number=number)


def _operation(sign: Sign, parts: tuple[Expression, ...]) -> Expression:
    return parts[0] if len(parts) == 1 and sign in _BINDING else Operation(sign=sign, parts=parts)


def plus(*parts: Expression) -> Expression:
    """The sum; of one part, the part."""
    return _operation(Sign.PLUS, parts)


def minus(*parts: Expression) -> Expression:
    """The first without the others."""
    return _operation(Sign.MINUS, parts)


def times(*parts: Expression) -> Expression:
    """The product; of one part, the part."""
    return _operation(Sign.TIMES, parts)


def over(*parts: Expression) -> Expression:
    """The first divided by the others in turn."""
    return _operation(Sign.OVER, parts)


def floor(part: Expression) -> Expression:
    """Rounded down."""
    return _operation(Sign.FLOOR, (part,))


def ceil(part: Expression) -> Expression:
    """Rounded up."""
    return _operation(Sign.CEIL, (part,))


def least(*parts: Expression) -> Expression:
    """The smallest; of one part, the part."""
    return parts[0] if len(parts) == 1 else _operation(Sign.MIN, parts)


def largest(*parts: Expression) -> Expression:
    """The largest; of one part, the part."""
    return parts[0] if len(parts) == 1 else _operation(Sign.MAX, parts)


def worked_out(expression: Expression) -> Number:
    """The number that an expression comes to."""
    if isinstance(expression, Value):
        return expression.number
    parts = [worked_out(part) for part in expression.parts]
    if expression.sign in _ROUNDING:
        return _ROUNDING[expression.sign](parts[0])
    return reduce(_JOINING[expression.sign], parts)


def with_names(expression: Expression) -> str:
    """``ceil(max_model_len / block_size)``."""
    return _written(expression, lambda value: value.name or written(value.number))


def with_values(expression: Expression) -> str:
    """``ceil(131,072 / 16)``."""
    return _written(expression, lambda value: written(value.number))


def written(number: Number) -> str:
    """A number with thousands apart; a fraction in all its digits."""
    return f"{number:,}" if isinstance(number, int) else repr(number)


def _written(expression: Expression, leaf: Callable[[Value], str]) -> str:
    if isinstance(expression, Value):
        return leaf(expression)
    sign = expression.sign
    binding = _BINDING.get(sign)
    if binding is None:
        return f"{sign.value}({', '.join(_written(part, leaf) for part in expression.parts)})"
    parts = []
    for index, part in enumerate(expression.parts):
        text = _written(part, leaf)
        if isinstance(part, Value) and part.number < 0 and index and leaf(part)[0] == "-":
            text = f"({text})"
        within = _FUNCTION if isinstance(part, Value) else _BINDING.get(part.sign, _FUNCTION)
        inside = within < binding or (index > 0 and within == binding and not _joins(part, sign))
        parts.append(f"({text})" if inside else text)
    return sign.value.join(parts)


def _joins(part: Expression, sign: Sign) -> bool:
    """Whether a part that binds alike may stand behind the sign without brackets."""
    same = isinstance(part, Operation) and part.sign is sign
    return same and sign in (Sign.PLUS, Sign.TIMES)


def values_of(expression: Expression) -> Iterator[tuple[str, Number]]:
    """Names with their numbers, in order of appearance; each once."""
    seen: set[tuple[str, Number]] = set()
    for value in _leaves(expression):
        if value.name is not None and (value.name, value.number) not in seen:
            seen.add((value.name, value.number))
            yield value.name, value.number


def _leaves(expression: Expression) -> Iterator[Value]:
    if isinstance(expression, Value):
        yield expression
    else:
        for part in expression.parts:
            yield from _leaves(part)
