"""Figures as printed: a rounded number stands for all values that print so."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import Enum

from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass

# The engine rounds to two decimals and drops zeros behind them: 15.0 is 15.00.
_FEWEST_DECIMALS = 2


class Figure(Enum):
    """What a line gives. Sizes are bytes of one rank where they are not the engine's own."""

    AVAILABLE = "available"
    IN_USE = "in_use"
    FIT_REQUESTED = "fit_requested"
    WEIGHTS = "weights"
    CONSUMED = "consumed"
    ACTIVATION = "activation"
    NON_TORCH = "non_torch"
    GRAPHS = "graphs"
    GRAPHS_ESTIMATED = "graphs_estimated"
    FREE = "free"
    TOTAL = "total"
    REQUESTED = "requested"
    RESERVED = "reserved"
    NEEDED = "needed"
    SHORT_OF = "short_of"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"
    LENGTH = "length"
    GPU_BLOCKS = "gpu_blocks"
    NEEDED_FOR = "needed_for"
    ESTIMATED_LENGTH = "estimated_length"
    FITTED_LENGTH = "fitted_length"
    ATTENTION_BLOCK = "attention_block"
    MAMBA_PADDING = "mamba_padding"
    PADDING_LAYERS = "padding_layers"
    MAX_MODEL_LEN = "max_model_len"
    MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"
    UTILIZATION = "utilization"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One printed figure and the line it stands in.

    text: the number as printed. low, high: the least and the largest value that print so, in
    bytes, tokens or blocks; hundredths of a request or of a percent where the figure is one.
    line: from 1. exact: nothing was rounded.
    """

    text: str
    low: int
    high: int
    line: int

    @property
    def exact(self) -> bool:
        return self.low == self.high

    @property
    def likely(self) -> int:
        """The middle of what prints so."""
        return (self.low + self.high) // 2

    def holds(self, low: int, high: int) -> bool:
        """Whether some value of ``low`` .. ``high`` prints so."""
        return low <= self.high and self.low <= high

    def narrowed(self, other: Printed) -> Printed | None:
        """Both at once; None where no value prints as both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low > high:
            return None
        finer = self if self.high - self.low <= other.high - other.low else other
        return Printed(text=finer.text, low=low, high=high, line=finer.line)


def printed_gib(text: str, line: int) -> Printed:
    """Bytes behind a figure in GiB."""
    return _rounded(text, line, GIB)


def printed_hundredths(text: str, line: int) -> Printed:
    """A concurrency or a percentage, in hundredths: printed with two decimals."""
    value = int(Decimal(text) * 100)
    return Printed(text=text, low=value, high=value, line=line)


def printed_count(text: str, line: int) -> Printed:
    """A whole number, with or without thousands apart."""
    value = int(text.replace(",", ""))
    return Printed(text=text, low=value, high=value, line=line)


def _rounded(text: str, line: int, unit: int) -> Printed:
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    decimals = max(_FEWEST_DECIMALS, -exponent if isinstance(exponent, int) else 0)
    half = Decimal(5).scaleb(-decimals - 1)
    return Printed(
        text=text,
        low=int(((number - half) * unit).to_integral_value(ROUND_CEILING)),
        high=int(((number + half) * unit).to_integral_value(ROUND_FLOOR)),
        line=line,
    )
