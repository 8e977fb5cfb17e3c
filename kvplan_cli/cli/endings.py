"""An error's message on stderr, and the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from kvplan_cli.cli.streams import write_error
from kvplan_cli.errors import InputError, KvplanError, Problem
from kvplan_cli.report.failures import defect_document, error_document, error_text
from kvplan_cli.report.json_form import dumps


def tell(error: Exception, words: Sequence[str]) -> int:
    """Write what went wrong, as the call asks for it; the exit code.

    With ``--json`` it is one JSON object. With ``--debug`` the traceback goes with it.
    """
    options = words[: words.index("--")] if "--" in words else words
    traceback = _traceback(error) if "--debug" in options else None
    known = _known(error)
    if known is None:
        document = defect_document(error, traceback)
    else:
        document = error_document(known, traceback)
    write_error(f"{dumps(document)}\n" if "--json" in options else error_text(document))
    return document.exit_code


def _known(error: Exception) -> KvplanError | None:
    """The error as one of kvplan's; None for a defect."""
    if isinstance(error, KvplanError):
        return error
    if isinstance(error, typer.TyperException):
        return InputError(_usage_problem(error))
    return None


def _usage_problem(error: typer.TyperException) -> Problem:
    """What Typer's parser found, which stops at the first fault."""
    option = getattr(error, "option_name", None)
    return Problem(
        where=str(option) if option else "kvplan",
        reason=error.format_message().rstrip("."),
        way_out="kvplan --help, or kvplan fit --help",
    )


def _traceback(error: Exception) -> str:
    from traceback import format_exception

    return "".join(format_exception(error))
