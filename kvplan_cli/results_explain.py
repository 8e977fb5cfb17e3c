"""What ``explain`` answers: every figure with its formula, waste, maps and what would change it."""

from __future__ import annotations

from enum import Enum

from kvplan_cli.errors import ExitCode
from kvplan_cli.formulas.formula import Formula
from kvplan_cli.formulas.maps import MemoryMap
from kvplan_cli.formulas.waste import Wasted
from kvplan_cli.results import FitResult
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What one planned set of flags holds, at the end of the memory that decides.

    max_concurrency, tokens: None where nothing fits or nothing is cached. longest_context: tokens,
    None where not one fits. gpus: cards of all ranks. available_bytes: of the rank with least.
    """

    fits: bool
    max_model_len: int | None
    max_concurrency: float | None
    tokens: int | None
    longest_context: int | None
    gpus: int
    available_bytes: int


class Effect(Enum):
    """What a change does. UNPLANNED: the engine refuses it, or it can't be planned."""

    BETTER = "better"
    NO_BETTER = "no_better"
    UNPLANNED = "unplanned"


class Price(Enum):
    """What a change costs. SPEED: of prompts or of decoding, alone. ROOM: a margin, or requests
    that run beside each other. OTHER: answers, features, lengths or cards."""

    SPEED = "speed"
    ROOM = "room"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of flags, planned.

    typed: as on a command line. cost: what it takes, in words. standing: None where it is not
    planned; reason then says why. together: it is several of the others at once.
    """

    flag: str
    typed: str
    cost: str
    price: Price
    effect: Effect
    standing: Standing | None = None
    reason: str | None = None
    together: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainResult:
    """The whole answer of ``explain``.

    formulas: from the card to the longest context, in order. wastes: the largest first. now: what
    the flags as given hold. changes: the best first, then those that do not help.
    """

    fit: FitResult
    formulas: tuple[Formula, ...]
    maps: tuple[MemoryMap, ...]
    wastes: tuple[Wasted, ...]
    now: Standing
    changes: tuple[Change, ...]

    @property
    def exit_code(self) -> ExitCode:
        return self.fit.exit_code
