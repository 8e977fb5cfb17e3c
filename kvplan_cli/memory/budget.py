"""The budget of one rank: what of a card is left for the KV cache, line by line.

requested = ceil(total x gpu_memory_utilization)
available = requested - weights - persistent buffers - outside - transient - graphs
"""

from __future__ import annotations

from enum import Enum

from kvplan_cli.values import dataclass


class Source(Enum):
    """Where a figure comes from."""

    GIVEN = "given"
    MEASURED = "measured"
    EXACT = "exact"
    COMPUTED = "computed"
    EMPIRICAL = "empirical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Bytes as low, likely and high; all three are equal where the figure is exact."""

    low: int
    likely: int
    high: int
    source: Source
    note: str = ""

    @classmethod
    def certain(cls, value: int, source: Source, note: str = "") -> Estimate:
        """One value without a range."""
        return cls(low=value, likely=value, high=value, source=source, note=note)

    @property
    def is_certain(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """One subtraction of the ladder. name: ``weights``, ``persistent_buffers``,
    ``outside_allocator``, ``transient`` or ``cuda_graphs``."""

    name: str
    bytes_per_rank: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBudget:
    """The ladder of the ranks of one pipeline stage.

    available: low, likely, high bytes for the KV cache; may be below zero. measure_it: why no
    single number may be shown and only the range stands, None where the likely value may.
    """

    stage: int
    total_memory_bytes: int
    gpu_memory_utilization: float
    requested_bytes: int
    lines: tuple[BudgetLine, ...]
    available: Estimate
    measure_it: str | None = None
