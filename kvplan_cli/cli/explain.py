"""``kvplan explain``: from the call's words to the reasons on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.cli.explain_options import EXPLAIN_OPTIONS, FORMATS
from kvplan_cli.cli.formats import read_format
from kvplan_cli.cli.parser import parse
from kvplan_cli.cli.request import read_request
from kvplan_cli.cli.streams import page, write
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems
from kvplan_cli.report.explain_document import ExplainDocument
from kvplan_cli.report.paths import bare, check_path, get_path
from kvplan_cli.results import FitRequest
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCall:
    """What is asked, and how the answer is shown. get: a path of the document."""

    request: FitRequest
    format: str
    get: str | None = None


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Explain, write the document, and say how the process ends: as ``fit`` does.

    behind_dashes: a serve command in place of MODEL. Raises: KvplanError where there is no plan.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli.report.explain_document import explain_document
    from kvplan_cli.service.explain import explain

    result = explain(call.request)
    write(_shown(explain_document(result), call))
    return int(result.exit_code)


def _shown(document: ExplainDocument, call: ExplainCall) -> str:
    if call.get is not None:
        return f"{bare(get_path(document, call.get))}\n"
    if call.format == "json":
        from kvplan_cli.report.json_form import dumps

        return f"{dumps(document)}\n"
    if call.format == "markdown":
        from kvplan_cli.report.explain_markdown import markdown

        return markdown(document)
    from kvplan_cli.report.explain_text import render_explain

    return render_explain(document, page())


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> ExplainCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, EXPLAIN_OPTIONS, problems, "explain")
    request = read_request(call, problems, behind_dashes)
    get, shape = call.values.get("get"), FORMATS[0]
    with problems.collecting():
        shape = read_format(call, FORMATS)
    with problems.collecting():
        if get is not None and "format" in call.values:
            reason = "--get prints one value, whatever the format"
            raise InputError(Problem(where="--get and --format", reason=reason, way_out="drop one"))
    with problems.collecting():
        if get is not None:
            check_path(ExplainDocument, get)
    problems.finish()
    return ExplainCall(request=request, format=shape, get=get)
