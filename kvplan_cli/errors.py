"""How kvplan ends: exit codes, and errors that carry where, why and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar

from kvplan_cli.values import dataclass


class ExitCode(IntEnum):
    """The process's endings, as documented in the README."""

    FITS = 0
    DOES_NOT_FIT = 1
    WRONG_INPUT = 2
    CANNOT_PLAN = 3
    DEFECT = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of an input.

    where: the flag, or the file and key path (``config.json: text_config.layer_types[3]``).
    reason: what is wrong with it.
    way_out: the legal values, the nearest name, or what to do; None when there is none.
    line: of a text that can't be read at all, from 1; a key's line is found by ``where``.
    """

    where: str
    reason: str
    way_out: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        tail = f" ({self.way_out})" if self.way_out else ""
        return f"{self.where}: {self.reason}{tail}"


class KvplanError(Exception):
    """An ending that is not a plan. All problems of an input are collected and shown once."""

    exit_code: ClassVar[ExitCode] = ExitCode.DEFECT
    kind: ClassVar[str] = "defect"

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (
            (problems,) if isinstance(problems, Problem) else tuple(problems)
        )
        super().__init__("; ".join(str(problem) for problem in self.problems))


class InputError(KvplanError):
    """The input is wrong: usage, file, value, contradictory flags."""

    exit_code = ExitCode.WRONG_INPUT
    kind = "wrong_input"


class MissingFieldError(InputError):
    """A field that the plan needs is not in the config.

    field: the dotted path of the missing key, from the config's root. origin: the config.
    The loader may answer it with the class default of ``transformers`` and try again.
    """

    def __init__(self, field: str, where: str) -> None:
        self.field = field
        self.origin = where
        super().__init__(
            Problem(
                where=f"{where}: {field}",
                reason="the plan needs this field and the config does not have it",
                way_out="add it to the config, or give it with --hf-overrides",
            )
        )


class UnplannableError(KvplanError):
    """It can't be planned: the architecture is not known, or facts can't be had."""

    exit_code = ExitCode.CANNOT_PLAN
    kind = "cannot_plan"


class EngineRefusalError(KvplanError):
    """The engine itself would refuse this at start; kvplan says so first.

    stage: ``config_error`` (while the engine resolves its settings) or ``model_error``
        (while it builds the model).
    error_type: the engine's exception class, e.g. ``ValueError``.
    message: the engine's own words.
    """

    exit_code = ExitCode.WRONG_INPUT
    kind = "engine_refuses"

    def __init__(
        self, *, stage: str, error_type: str, message: str, way_out: str | None = None
    ) -> None:
        self.stage = stage
        self.error_type = error_type
        self.message = message
        reason = message or f"it stops at a bare {error_type}, without a word"
        KvplanError.__init__(self, Problem(where="vLLM at start", reason=reason, way_out=way_out))


class UnservedArchitectureError(EngineRefusalError):
    """An architecture that the engine has no class for: it refuses, and kvplan can't plan it.

    message: the engine's words, which go on to list every name it knows.
    """

    exit_code = ExitCode.CANNOT_PLAN
    kind = "cannot_plan"

    def __init__(self, *, message: str, problem: Problem) -> None:
        EngineRefusalError.__init__(
            self, stage="config_error", error_type="ValidationError", message=message
        )
        self.problems = (problem,)
        self.args = (str(problem),)
