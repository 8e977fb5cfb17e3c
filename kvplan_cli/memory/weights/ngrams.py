"""Tables of n-grams, which the engine keeps in the host's memory.

Each head of each layer has a table of a prime number of rows, the next one for each.
Source: vLLM 0.33.0 ``config/engram.py:EngramConfig.cpu_offload``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from kvplan_cli.hf_config import HfConfig

# Beyond any table that a host could hold, where primes are still found at once.
_LARGEST_TABLE: Final = 2**36


def head_rows(config: HfConfig, key: str, before: int, heads: int) -> Sequence[int]:
    """Rows of so many heads' tables, behind those of earlier layers, from the size at ``key``."""
    base = config.positive(key)
    if base > _LARGEST_TABLE:
        raise config.wrong(key, f"at most {_LARGEST_TABLE}")
    return tuple(islice(_primes(base), before, before + heads))


def _primes(start: int) -> Iterator[int]:
    """The primes from ``start`` on."""
    return (value for value in count(max(start, 2)) if _is_prime(value))


def _is_prime(value: int) -> bool:
    return all(value % divisor for divisor in range(2, int(value**0.5) + 1))
