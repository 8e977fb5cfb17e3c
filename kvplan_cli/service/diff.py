"""Two answers side by side: each planned, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan_cli.errors import InputError, KvplanError, Problem
from kvplan_cli.loader.problems import Problems, printable
from kvplan_cli.loader.saved_answer import read_saved
from kvplan_cli.report.build import fit_document
from kvplan_cli.report.conform import fault_of
from kvplan_cli.report.document import SCHEMA_VERSION, FitDocument
from kvplan_cli.report.json_form import plain
from kvplan_cli.results_diff import Compared, DiffRequest, DiffResult, Side
from kvplan_cli.service.fit import fit


def diff(request: DiffRequest) -> DiffResult:
    """Plan or read both sides.

    Raises: InputError with the faults of both sides; UnplannableError, EngineRefusalError of
    one. Each says which side it is about.
    """
    problems = Problems()
    found: list[Compared] = []
    for letter, side in (("a", request.a), ("b", request.b)):
        with problems.collecting():
            found.append(_compared(letter, side))
    problems.finish()
    a, b = found
    if a.saved and b.saved and request.a.has_options:
        reason = "both answers are saved, so that options change nothing"
        raise InputError(Problem(where="options", reason=reason, way_out="leave them out"))
    return DiffResult(a=a, b=b, exit_code=request.exit_code)


def _compared(letter: str, side: Side) -> Compared:
    try:
        saved = None if side.request.command else read_saved(side.request.model, SCHEMA_VERSION)
        if saved is None:
            document = plain(fit_document(fit(side.request)))
            return Compared(name=side.name, saved=False, document=document)
        _check_saved(side, saved)
    except KvplanError as error:
        error.problems = tuple(
            Problem(
                where=f"{letter} ({printable(side.name, 80)}): {problem.where}",
                reason=problem.reason,
                way_out=problem.way_out,
            )
            for problem in error.problems
        )
        raise
    return Compared(name=side.name, saved=True, document=saved)


def _check_saved(side: Side, document: Mapping[str, Any]) -> None:
    if side.has_own:
        reason = "options of its own change nothing in a saved answer"
        raise InputError(Problem(where="options", reason=reason, way_out="leave them out"))
    fault = fault_of(FitDocument, document)
    if fault is not None:
        reason = "not what kvplan fit --json prints"
        way_out = "save the answer again"
        raise InputError(Problem(where=fault, reason=reason, way_out=way_out))
