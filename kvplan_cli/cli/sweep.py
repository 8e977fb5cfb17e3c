"""``kvplan sweep``: rows on stdout, progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvplan_cli.cli.formats import read_format
from kvplan_cli.cli.parser import Call, parse
from kvplan_cli.cli.progress import bar
from kvplan_cli.cli.request import read_request
from kvplan_cli.cli.streams import page, write, write_error
from kvplan_cli.cli.sweep_options import FORMATS, SWEEP_OPTIONS
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.axes import FORMS, read_axes
from kvplan_cli.loader.problems import Problems, nearest, shown
from kvplan_cli.loader.questions import read_end
from kvplan_cli.results_solve import End
from kvplan_cli.results_sweep import Axis, Selection, SweepRequest, SweepResult
from kvplan_cli.service.select import Condition, Order, read_condition, read_order, select
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.report.sweep_document import SweepDocument

_ROWS: Final = 40
_DEFAULT_HEIGHT: Final = "max_concurrency"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCall:
    """What is asked, and how the answer is shown. limit: rows of the table, 0 for all."""

    request: SweepRequest
    where: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    format: str = "table"
    limit: int = _ROWS
    plot: bool = False
    plot_file: Path | None = None
    plot_y: str = _DEFAULT_HEIGHT
    quiet: bool = False


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Plan every point, write the rows, and say how the process ends.

    behind_dashes: a serve command, in place of MODEL. Raises: KvplanError where nothing can
    be planned.
    """
    call = read_call(words, behind_dashes)
    if call.plot_file is not None:
        from kvplan_cli.report.plot_file import check_plot_file

        check_plot_file(call.plot_file)

    from kvplan_cli.report.sweep_document import sweep_document
    from kvplan_cli.service.sweep import sweep

    total = prod(len(axis.values) for axis in call.request.axes)
    with bar(quiet=call.quiet) as tell:
        result = sweep(call.request, None if tell is None else lambda done: tell(done, total))
    axes = result.axes
    selection = select(result.rows, axes, call.where, call.order)
    document = sweep_document(result, selection)
    write(_shown(call, result, selection, document))
    if call.plot_file is not None:
        from kvplan_cli.report.plot_file import write_plot
        from kvplan_cli.report.series import picture

        write_plot(picture(result.model, axes, selection, call.plot_y), call.plot_file)
    if document.interrupted:
        write_error(
            f"kvplan: interrupted after {document.points_done:,} of "
            f"{document.points_total:,} points; those are shown\n"
        )
    return document.exit_code


def _shown(
    call: SweepCall, result: SweepResult, selection: Selection, document: SweepDocument
) -> str:
    if call.format == "json":
        from kvplan_cli.report.json_form import dumps

        return f"{dumps(document)}\n"
    if call.format == "table":
        from kvplan_cli.report.sweep_text import render_sweep

        plot = None
        if call.plot:
            from kvplan_cli.report.plot_text import plot_text
            from kvplan_cli.report.series import picture

            plot = plot_text(picture(result.model, result.axes, selection, call.plot_y), page())
        return render_sweep(document, page(), call.limit, plot)
    from kvplan_cli.report import sweep_rows

    formats: dict[str, Callable[[SweepDocument], str]] = {
        "csv": sweep_rows.csv_text,
        "jsonl": sweep_rows.json_lines,
        "markdown": sweep_rows.markdown,
    }
    return formats[call.format](document)


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> SweepCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, SWEEP_OPTIONS, problems, "sweep")
    given = call.values
    fit = read_request(call, problems, behind_dashes)
    axes, on = _axes(call, problems), End.LOW
    with problems.collecting():
        on = read_end(call.values.get("on", on.value))
    where = _conditions(call, axes, problems)
    order: tuple[Order, ...] = ()
    with problems.collecting():
        if "sort" in given and axes:
            order = read_order(given["sort"], axes)
    shape, limit, height = FORMATS[0], _ROWS, _DEFAULT_HEIGHT
    with problems.collecting():
        shape = read_format(call, FORMATS)
    with problems.collecting():
        limit = _limit(given.get("limit"))
    with problems.collecting():
        height = _height(call, axes, shape)
    problems.finish()
    return SweepCall(
        request=SweepRequest(fit=fit, axes=axes, on=on),
        where=where,
        order=order,
        format=shape,
        limit=limit,
        plot=bool(given.get("plot")),
        plot_file=Path(given["plot_file"]) if "plot_file" in given else None,
        plot_y=height,
        quiet=bool(given.get("quiet")),
    )


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def _axes(call: Call, problems: Problems) -> tuple[Axis, ...]:
    if "vary" not in call.values:
        problems.add("--vary", "is missing", FORMS)
        return ()
    axes: tuple[Axis, ...] = ()
    with problems.collecting():
        axes = read_axes(call.values["vary"])
    for axis in axes:
        if axis.name in call.values:
            dashed = axis.name.replace("_", "-")
            problems.add(f"--vary {dashed}", f"--{dashed} is given as well", "drop one")
    return axes


def _conditions(call: Call, axes: tuple[Axis, ...], problems: Problems) -> tuple[Condition, ...]:
    conditions = []
    # Without axes their names are not known, and what is wrong has been told.
    for text in call.values.get("where", []) if axes else []:
        with problems.collecting():
            conditions.append(read_condition(text, axes))
    return tuple(conditions)


def _limit(text: str | None) -> int:
    if text is None:
        return _ROWS
    if not text.isdecimal() or len(text) > 9:
        raise _fault("--limit", f"{shown(text)} is no number of rows", "0 shows all")
    return int(text)


def _height(call: Call, axes: tuple[Axis, ...], shape: str) -> str:
    from kvplan_cli.report.series import HEIGHTS

    if call.values.get("plot") and shape != "table":
        raise _fault("--plot", f"does not go with {shape}", "--plot-file draws beside it")
    word = str(call.values.get("plot_y", _DEFAULT_HEIGHT)).replace("-", "_")
    if word not in HEIGHTS:
        near = nearest(word, HEIGHTS)
        hint = f"did you mean {near}? " if near else ""
        legal = f"{hint}one of {', '.join(HEIGHTS)}"
        raise _fault("--plot-y", f"{shown(word)} can't be drawn", legal)
    return word
