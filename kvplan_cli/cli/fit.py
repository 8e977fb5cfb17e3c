"""``kvplan fit``: from the call's words to the answer on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.cli.options import FIT_OPTIONS
from kvplan_cli.cli.parser import parse
from kvplan_cli.cli.request import read_request
from kvplan_cli.cli.streams import page, write
from kvplan_cli.loader.problems import Problems
from kvplan_cli.results import FitRequest
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FitCall:
    """What is asked, and how the answer is shown. get: a path of the document."""

    request: FitRequest
    as_json: bool = False
    get: str | None = None


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Plan, write the document, and say how the process ends.

    behind_dashes: a serve command, in place of MODEL. Raises: KvplanError where there is no plan.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli import service
    from kvplan_cli.report.build import fit_document

    result = service.fit(call.request)
    document = fit_document(result)
    if call.get is not None:
        from kvplan_cli.report.paths import bare, get_path

        write(f"{bare(get_path(document, call.get))}\n")
    elif call.as_json:
        from kvplan_cli.report.json_form import dumps

        write(f"{dumps(document)}\n")
    else:
        from kvplan_cli.report.tables import render

        write(render(document, page()))
    return int(result.exit_code)


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> FitCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, FIT_OPTIONS, problems)
    given = call.values
    request = read_request(call, problems, behind_dashes)
    get = given.get("get")
    with problems.collecting():
        _check_get(get)
    problems.finish()
    return FitCall(
        request=request,
        as_json=bool(given.get("json")),
        get=get,
    )


def _check_get(path: str | None) -> None:
    if path is None:
        return
    from kvplan_cli.report.document import FitDocument
    from kvplan_cli.report.paths import check_path

    check_path(FitDocument, path)
