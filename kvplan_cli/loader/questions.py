"""What a question asks beside the model: quantity, step, needs, the end that decides."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import nearest, shown
from kvplan_cli.loader.request_mix import MOST_REQUESTS
from kvplan_cli.loader.sizes import parse_engine_integer, parse_size
from kvplan_cli.results_solve import End, Quantity

_QUANTITIES: Final = tuple(quantity.value for quantity in Quantity)
_LONGEST_NUMBER: Final = 40
# What takes a step, and how it is written.
_FRACTIONS: Final = (Quantity.GPU_MEMORY_UTILIZATION, Quantity.CONCURRENCY)
_SIZES: Final = (Quantity.KV_MEM, Quantity.GPU_MEM)
_ENUMERATED: Final = (Quantity.TENSOR_PARALLEL_SIZE, Quantity.KV_CACHE_DTYPE)


def read_quantity(word: str | None) -> Quantity:
    """``--for``. Raises: InputError."""
    legal = f"one of {', '.join(_QUANTITIES)}"
    if word is None:
        raise _fault("--for", "is missing", legal)
    name = word.replace("_", "-")
    if name not in _QUANTITIES:
        near = nearest(name, _QUANTITIES)
        hint = f"did you mean {near}? " if near else ""
        raise _fault("--for", f"{shown(word)} can't be solved for", f"{hint}{legal}")
    return Quantity(name)


def read_concurrency(text: str) -> Fraction:
    """``--concurrency``: requests at a time, above 0. Raises: InputError."""
    number = _decimal(text)
    if number is None or not 0 < number <= MOST_REQUESTS:
        reason = f"{shown(text)} is not a number of requests"
        raise _fault("--concurrency", reason, "a number above 0, as in 8 or 2.5")
    return Fraction(number)


def read_step(text: str, quantity: Quantity) -> Decimal:
    """``--step``: the grid of an answer, in the quantity's own unit. Raises: InputError."""
    if quantity in _ENUMERATED:
        raise _fault("--step", f"{quantity.value} has no step", "leave it out")
    if quantity in _SIZES:
        # A step may be smaller than what a size of memory may be.
        return Decimal(int(text) if text.isdecimal() and len(text) < 20 else _size(text)) or _odd()
    if quantity in _FRACTIONS:
        number = _decimal(text)
        if number is None or not Decimal("0.000001") <= number <= 1:
            raise _fault("--step", f"{shown(text)} is no step", "above 0 up to 1, as in 0.005")
        return number
    return Decimal(max(0, parse_engine_integer(text, "--step"))) or _odd()


def read_end(word: str) -> End:
    """``--on``: which end of an estimated memory decides. Raises: InputError."""
    ends = [end.value for end in End]
    if word not in ends:
        raise _fault("--on", f"{shown(word)} is no end", f"one of {', '.join(ends)}")
    return End(word)


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and len(text) < _LONGEST_NUMBER else None


def _size(text: str) -> int:
    return parse_size(text, "--step")


def _odd() -> Decimal:
    raise _fault("--step", "a step of nothing", "leave it out, or give one above 0")


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
