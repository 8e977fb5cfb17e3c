"""``kvplan explain``: from the call's words to the reasons on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.cli.fit import read_call
from kvplan_cli.cli.help import MODEL_FORMS, CommandHelp, show_help
from kvplan_cli.cli.options import FIT_OPTIONS
from kvplan_cli.cli.streams import page, write


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Explain, write the document, and say how the process ends: as ``fit`` does.

    behind_dashes: words behind ``--``. Raises: KvplanError where there is no plan.
    """
    call = read_call(words, behind_dashes, command="explain", contract=_contract)

    from kvplan_cli.report.explain_document import explain_document
    from kvplan_cli.service.explain import explain

    result = explain(call.request)
    document = explain_document(result)
    if call.get is not None:
        from kvplan_cli.report.paths import bare, get_path

        write(f"{bare(get_path(document, call.get))}\n")
    elif call.as_json:
        from kvplan_cli.report.json_form import dumps

        write(f"{dumps(document)}\n")
    else:
        from kvplan_cli.report.explain_text import render_explain

        write(render_explain(document, page()))
    return int(result.exit_code)


def _contract() -> type:
    from kvplan_cli.report.explain_document import ExplainDocument

    return ExplainDocument


def show_explain_help() -> None:
    """Put the help of ``kvplan explain`` on stdout."""
    show_help(
        CommandHelp(
            usage="Usage: kvplan explain MODEL [OPTIONS]",
            about=(
                "Why a plan is as it is: every figure as formula, values and source; where memory "
                "goes, drawn; what is wasted, in bytes and percent; and the flags that would hold "
                "more, each planned, best first.",
                MODEL_FORMS,
            ),
            options=FIT_OPTIONS,
            examples=(
                "kvplan explain gemma-3-27b --kv-mem 18GiB",
                "kvplan explain serve.yaml --gpu h100 -tp 2",
                "kvplan explain llama-3.1-8b --kv-mem 40GiB --get changes.0.typed",
            ),
            endings="Exit codes: 0 it fits, 1 it does not fit (and what would make it fit), 2 the "
            "input is wrong, 3 it can't be planned, 70 a defect in kvplan.",
        )
    )
