"""What ``sweep`` asks and answers: flags varied, a row a point."""

from __future__ import annotations

from enum import Enum

from kvplan_cli.errors import ExitCode
from kvplan_cli.results import FitRequest, Notice, Origin
from kvplan_cli.results_solve import End
from kvplan_cli.values import dataclass

Value = str | int | float | bool | None


class Unit(Enum):
    """How a value reads: as it stands, or as bytes."""

    PLAIN = "plain"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that is varied.

    name: the engine's Python name of a flag, or ``gpu``, ``gpu_mem``, ``kv_mem``, ``weights``.
    values: in the order given; None leaves the flag at its default.
    """

    name: str
    values: tuple[Value, ...]
    is_flag: bool
    unit: Unit = Unit.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """One question: every combination of the axes' values, the last axis fastest."""

    fit: FitRequest
    axes: tuple[Axis, ...]
    on: End = End.LOW


class State(Enum):
    """What came of a point.

    REFUSED: the engine would not start with these flags, whatever the memory. UNPLANNABLE:
    kvplan does not plan them. WRONG: the inputs contradict each other at this point.
    """

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    REFUSED = "refused"
    UNPLANNABLE = "unplannable"
    WRONG = "wrong_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point. values: one an axis. reason: why it does not fit.

    gpus: cards of the deployment (TP x PP x PCP x DP). available_bytes: of the worker that has
    least, at the end that decides. The figures are None where there is no plan.
    """

    values: tuple[Value, ...]
    state: State
    gpus: int
    reason: str | None = None
    available_bytes: int | None = None
    max_model_len: int | None = None
    num_blocks: int | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The whole answer.

    rows: of the points done, in the order of the axes. total: points asked for; more than the
    rows where the user interrupted.
    architecture: None where no point was planned. estimated: some memory is an estimate, and
    ``on`` decided.
    """

    model: str
    model_origin: str
    architecture: str | None
    engine_release: str
    origins: tuple[Origin, ...]
    axes: tuple[Axis, ...]
    on: End
    estimated: bool
    total: int
    rows: tuple[Row, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def interrupted(self) -> bool:
        return len(self.rows) < self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rows that are shown, in order. best: index of the best one, None where none fits."""

    rows: tuple[Row, ...]
    best: int | None

    @property
    def exit_code(self) -> ExitCode:
        fits = any(row.state is State.FITS for row in self.rows)
        return ExitCode.FITS if fits else ExitCode.DOES_NOT_FIT
