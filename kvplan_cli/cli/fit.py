"""``kvplan fit``: from the call's words to the answer on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvplan_cli.cli.options import FIT_OPTIONS
from kvplan_cli.cli.parser import parse
from kvplan_cli.cli.request import read_form, read_request
from kvplan_cli.cli.streams import page, write, write_error
from kvplan_cli.errors import ExitCode
from kvplan_cli.loader.problems import Problems
from kvplan_cli.results import FitRequest, Serving
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.report.document import FitDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class FitCall:
    """What is asked, and how the answer is shown.

    get: a path of the document. emit: the form of the flags, where they alone are printed.
    """

    request: FitRequest
    as_json: bool = False
    get: str | None = None
    emit: str | None = None
    quiet: bool = False
    verbose: bool = False


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Plan, write the document, and say how the process ends.

    behind_dashes: a serve command, in place of MODEL. Raises: KvplanError where there is no plan.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli import service
    from kvplan_cli.report.build import fit_document

    result = service.fit(call.request)
    document = fit_document(result)
    if call.emit is not None:
        write_flags(result.serving, call.emit, fits=result.exit_code == ExitCode.FITS)
        if not call.quiet:
            write_error(_sentence(document))
    else:
        write(_shown(call, document))
    return int(result.exit_code)


def _shown(call: FitCall, document: FitDocument) -> str:
    if call.get is not None:
        from kvplan_cli.report.paths import bare, get_path

        return f"{bare(get_path(document, call.get))}\n"
    if call.as_json:
        from kvplan_cli.report.json_form import dumps

        return f"{dumps(document)}\n"
    if call.quiet:
        return _sentence(document)
    from kvplan_cli.report.tables import render

    return render(document, page(), verbose=call.verbose)


def _sentence(document: FitDocument) -> str:
    from kvplan_cli.report.answer import answer

    return f"{answer(document)}\n"


def write_flags(serving: Serving | None, form: str, *, fits: bool) -> None:
    """Put the flags on stdout; nothing where the engine would not start with them."""
    from kvplan_cli.report.emit import emitted

    if fits and serving is not None:
        write(emitted(serving, form))


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> FitCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, FIT_OPTIONS, problems)
    given = call.values
    request = read_request(call, problems, behind_dashes)
    get, emit = given.get("get"), read_form(call, problems)
    with problems.collecting():
        _check_get(get)
    problems.finish()
    return FitCall(
        request=request,
        as_json=bool(given.get("json")),
        get=get,
        emit=emit,
        quiet=bool(given.get("quiet")),
        verbose=bool(given.get("verbose")),
    )


def _check_get(path: str | None) -> None:
    if path is None:
        return
    from kvplan_cli.report.document import FitDocument
    from kvplan_cli.report.paths import check_path

    check_path(FitDocument, path)
