"""Bytes, tokens and blocks, and the integer helpers that every formula shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NewType

Bytes = NewType("Bytes", int)
Tokens = NewType("Tokens", int)
Blocks = NewType("Blocks", int)

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30


def cdiv(value: int, divisor: int) -> int:
    """The smallest whole number of ``divisor`` that covers ``value``."""
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    """``value`` raised to the next multiple of ``multiple``."""
    return cdiv(value, multiple) * multiple


def largest_fitting(fits: Callable[[int], bool], upper: int) -> int:
    """The largest ``n`` in 1..upper for which ``fits(n)``; 0 when 1 does not fit.

    ``fits`` must be monotone: what fits at ``n`` fits at every smaller length.
    Every fit in kvplan is this one search.
    """
    if upper < 1 or not fits(1):
        return 0
    if fits(upper):
        return upper
    fitting, too_long = 1, upper
    while too_long - fitting > 1:
        middle = (fitting + too_long) // 2
        if fits(middle):
            fitting = middle
        else:
            too_long = middle
    return fitting


def smallest_fitting(fits: Callable[[int], bool], upper: int) -> int:
    """The smallest ``n`` in 1..upper for which ``fits(n)``; 0 when ``upper`` does not fit.

    The mirror of ``largest_fitting``: what fits at ``n`` must fit at every larger one.
    """
    if upper < 1 or not fits(upper):
        return 0
    return largest_fitting(lambda n: not fits(n), upper - 1) + 1


def format_gib(size: int) -> str:
    """Bytes in GiB as the engine prints them: rounded to two decimals, ``3.5`` for 3.50.

    Source: vLLM 0.33.0 ``vllm/utils/mem_utils.py:format_gib``.
    """
    return f"{round(size / GIB, 2)}"


def spans(numbers: Sequence[int]) -> str:
    """``0-4,6,8-10``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
