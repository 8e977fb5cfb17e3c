"""What ``gate`` asks and answers: deployments held against what their files expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvplan_cli.errors import ExitCode
from kvplan_cli.results import FitRequest, Notice
from kvplan_cli.results_solve import End
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """One question.

    files: as given; a name with ``*``, ``?`` or ``[`` that is no file is a pattern.
    environments, deployments: those that are checked, empty for all. on: which end of an estimate
    decides.
    """

    files: tuple[str, ...]
    environments: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    on: End = End.LOW


class Unit(Enum):
    """What a figure counts, and so how it reads."""

    ANSWER = "answer"
    REQUESTS = "requests"
    TOKENS = "tokens"
    BLOCKS = "blocks"
    BYTES = "bytes"
    CARDS = "cards"
    FRACTION = "fraction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation held against the plan.

    name: dashed; ``fits`` is expected of every deployment. required, actual: in ``unit``; None
    where there is no such figure. at_most: the figure must not be above, not below.
    holds_on: the ends of the memory at which it holds. path, line: where it is demanded.
    remark: why the figure is what it is, where that is not plain.
    """

    name: str
    unit: Unit
    required: int | float | None
    actual: int | float | None
    at_most: bool
    holds: bool
    holds_on: tuple[End, ...]
    path: Path
    line: int | None
    remark: str | None = None

    @property
    def margin(self) -> int | float | None:
        """What is to spare; below zero what is missing."""
        if self.required is None or self.actual is None or self.unit is Unit.ANSWER:
            return None
        return self.required - self.actual if self.at_most else self.actual - self.required


class State(Enum):
    """What came of one deployment.

    WRONG_INPUT, ENGINE_REFUSES, CANNOT_PLAN and DEFECT: there is no plan to hold against anything.
    """

    HOLDS = "holds"
    FAILS = "fails"
    WRONG_INPUT = "wrong_input"
    ENGINE_REFUSES = "engine_refuses"
    CANNOT_PLAN = "cannot_plan"
    DEFECT = "defect"

    @property
    def exit_code(self) -> ExitCode:
        return _EXIT_CODES[self]


_EXIT_CODES = {
    State.HOLDS: ExitCode.FITS,
    State.FAILS: ExitCode.DOES_NOT_FIT,
    State.WRONG_INPUT: ExitCode.WRONG_INPUT,
    State.ENGINE_REFUSES: ExitCode.WRONG_INPUT,
    State.CANNOT_PLAN: ExitCode.CANNOT_PLAN,
    State.DEFECT: ExitCode.DEFECT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why there is no plan. where: as in Problem; path, line: the file to look at."""

    where: str
    reason: str
    way_out: str | None
    path: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What was planned. decided_on: the end that decided; None where the memory is given."""

    model: str
    model_origin: str
    architecture: str
    engine_release: str
    gpu: str
    gpu_assumed: bool
    gpus: int
    decided_on: End | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment of one file in one environment.

    path: as given. planned: None where there is no plan; then faults say why.
    """

    path: str
    name: str | None
    environment: str | None
    state: State
    planned: Planned | None = None
    checks: tuple[Check, ...] = ()
    faults: tuple[Fault, ...] = ()
    notices: tuple[Notice, ...] = ()


# Which ending tells most, where several deployments end differently: what more the answer may
# hide stands first. Wrong input does not mend itself; facts that can't be had may come back.
_GRAVEST = (
    ExitCode.DEFECT,
    ExitCode.WRONG_INPUT,
    ExitCode.CANNOT_PLAN,
    ExitCode.DOES_NOT_FIT,
    ExitCode.FITS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The whole answer. bases: files that only others extend, not checked themselves."""

    deployments: tuple[Deployment, ...]
    bases: tuple[str, ...]
    on: End

    @property
    def exit_code(self) -> ExitCode:
        return gravest([each.state.exit_code for each in self.deployments])


def gravest(codes: Sequence[ExitCode]) -> ExitCode:
    """The ending of the whole."""
    return min(codes, key=_GRAVEST.index, default=ExitCode.FITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """A first plan file that is asked for.

    path: where it is to stand, for the paths in it. margin: what its expectations leave, as a
    part of today's figures.
    """

    fit: FitRequest
    path: Path
    margin: Fraction
    on: End = End.LOW


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftExpectation:
    """One expectation of a first file, and today's figure behind it; None where it is equal."""

    name: str
    value: int | float
    today: int | float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A first plan file.

    extends: the file that holds the plan, and service the serve command in it that is meant; else
    model names it. keys, serve, env: what else the file says, as it is written there. asked: the
    serve command it comes from, or empty.
    decided_on: the end of the memory behind the figures; None where the memory is given.
    """

    path: Path
    extends: str | None
    service: str | None
    model: str | None
    keys: Mapping[str, str | int]
    serve: Mapping[str, Any]
    env: Mapping[str, str]
    asked: str
    expectations: tuple[DraftExpectation, ...]
    margin: Fraction
    decided_on: End | None
