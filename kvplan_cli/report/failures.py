"""Errors as a person and as a program read them: one text, one JSON object."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from kvplan_cli.errors import EngineRefusalError, ExitCode, KvplanError
from kvplan_cli.report.document import SCHEMA_VERSION
from kvplan_cli.report.words import plural, printable

_HEADINGS = {
    "wrong_input": "the input is wrong",
    "engine_refuses": "the engine refuses",
    "cannot_plan": "it can't be planned",
}


class ProblemDocument(NamedTuple):
    """One fault."""

    where: Annotated[str, "The flag, or the file and key path."]
    reason: Annotated[str, "What is wrong."]
    way_out: Annotated[str | None, "The legal values, the nearest name, or what to do."]


class EngineErrorDocument(NamedTuple):
    """The error that the engine itself would end with."""

    stage: Annotated[str, "config_error or model_error: when the engine would end."]
    error_type: Annotated[str, "The engine's exception class."]
    message: Annotated[str, "The engine's own words."]


class ErrorDocument(NamedTuple):
    """What stands on stderr with ``--json`` when there is no plan."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    error: Annotated[
        Literal["wrong_input", "engine_refuses", "cannot_plan", "defect"], "The ending."
    ]
    exit_code: Annotated[int, "The process's exit code."]
    problems: Annotated[tuple[ProblemDocument, ...], "All faults that were found."]
    engine_error: Annotated[EngineErrorDocument | None, "With engine_refuses."]
    traceback: Annotated[str | None, "With --debug."]


def error_document(error: KvplanError, traceback: str | None = None) -> ErrorDocument:
    """The contract's form of an ending that is not a plan."""
    engine_error = None
    if isinstance(error, EngineRefusalError):
        engine_error = EngineErrorDocument(
            stage=error.stage, error_type=error.error_type, message=error.message
        )
    kind: Literal["wrong_input", "engine_refuses", "cannot_plan", "defect"]
    match error.kind:
        case "wrong_input" | "engine_refuses" | "cannot_plan" as known:
            kind = known
        case _:
            kind = "defect"
    return ErrorDocument(
        schema_version=SCHEMA_VERSION,
        error=kind,
        exit_code=int(error.exit_code),
        problems=tuple(
            ProblemDocument(where=part.where, reason=part.reason, way_out=part.way_out)
            for part in error.problems
        ),
        engine_error=engine_error,
        traceback=traceback,
    )


def defect_document(error: BaseException, traceback: str | None = None) -> ErrorDocument:
    """A crash: a defect in kvplan, not an answer."""
    problem = ProblemDocument(
        where="kvplan",
        reason=f"{type(error).__name__}: {error}",
        way_out="this is a defect in kvplan; run it again with --debug for the traceback",
    )
    return ErrorDocument(
        schema_version=SCHEMA_VERSION,
        error="defect",
        exit_code=int(ExitCode.DEFECT),
        problems=(problem,),
        engine_error=None,
        traceback=traceback,
    )


def error_text(document: ErrorDocument) -> str:
    """One line where there is one fault, else a line for each beneath a heading."""
    lines = [_line(problem) for problem in document.problems]
    if document.error == "defect":
        text = f"kvplan: {lines[0]}\n"
    elif len(lines) == 1:
        text = f"kvplan: {_HEADINGS[document.error]}: {lines[0]}\n"
    else:
        heading = f"kvplan: {_HEADINGS[document.error]} ({plural(len(lines), 'fault')}):\n"
        text = heading + "".join(f"  {line}\n" for line in lines)
    return text if document.traceback is None else f"{document.traceback.rstrip()}\n{text}"


def _line(problem: ProblemDocument) -> str:
    way_out = f" ({problem.way_out})" if problem.way_out else ""
    text = f"{problem.where}: {problem.reason}{way_out}"
    return printable(" ".join(text.split("\n")))
