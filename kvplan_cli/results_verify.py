"""What ``verify`` answers: each printed figure beside the predicted one."""

from __future__ import annotations

from enum import Enum

from kvplan_cli.errors import ExitCode
from kvplan_cli.results import Notice, Origin
from kvplan_cli.values import dataclass


class Unit(Enum):
    """What a figure counts."""

    BYTES = "bytes"
    TOKENS = "tokens"
    BLOCKS = "blocks"
    HUNDREDTH_REQUESTS = "hundredths of a request"
    HUNDREDTH_PERCENT = "hundredths of a percent"
    LAYERS = "layers"


class Agreement(Enum):
    """How a printed figure stands to the predicted one.

    EQUAL: the one value that is possible. WITHIN_ROUNDING: one of those that the rounding of
    print leaves possible. IN_RANGE: an estimate's range holds it. OFF: none of these.
    NOT_PREDICTED: kvplan says nothing of it; the reason tells why.
    """

    EQUAL = "equal"
    WITHIN_ROUNDING = "within_rounding"
    IN_RANGE = "in_range"
    OFF = "off"
    NOT_PREDICTED = "not_predicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One printed figure beside the predicted one.

    figure: its name. of: the process or the stage it is of, where that matters. printed: as it
    stands in the log; printed_low, printed_high: what prints so. predicted_*: None where
    nothing is predicted. reason: why it is off or not predicted, or under which rules it agrees.
    """

    figure: str
    of: str
    unit: Unit
    printed: str
    printed_low: int
    printed_high: int
    line: int
    predicted_low: int | None
    predicted_likely: int | None
    predicted_high: int | None
    agreement: Agreement
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The whole answer of ``verify``.

    log: its name. log_release: as printed, None where it is not. rules_release: whose rules
    the prediction follows.
    """

    log: str
    log_release: str | None
    rules_release: str
    model: str
    model_origin: str
    architecture: str
    origins: tuple[Origin, ...]
    comparisons: tuple[Comparison, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def all_agree(self) -> bool:
        """Whether nothing is off, and something was predicted at all."""
        agreements = {comparison.agreement for comparison in self.comparisons}
        return Agreement.OFF not in agreements and agreements != {Agreement.NOT_PREDICTED}

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.FITS if self.all_agree else ExitCode.DOES_NOT_FIT
