"""A sweep as a table for people, with the best row marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kvplan_cli.report.document import Scalar
from kvplan_cli.report.grid import Column, Page, grid, needed_width
from kvplan_cli.report.sheet import drawn
from kvplan_cli.report.sweep_document import RowDocument, SweepDocument
from kvplan_cli.report.words import UNKNOWN, count, gib, plural, printable, requests
from kvplan_cli.values import dataclass

_SIZES: Final = ("gpu_mem", "kv_mem", "weights", "kv_cache_memory_bytes")
_STATES: Final = {
    "fits": "",
    "does_not_fit": "no",
    "refused": "refused",
    "unplannable": "unknown",
    "wrong_input": "wrong",
}
_BEST: Final = "best"
# Further reasons stand in the other formats.
_MOST_REASONS: Final = 8


def render_sweep(document: SweepDocument, page: Page, limit: int, plot: str | None = None) -> str:
    """The question, the first ``limit`` rows (0: all), the plot, notices, and the best last."""
    return drawn(list(_sections(document, page, limit, plot)), answer(document), page)


def _sections(
    document: SweepDocument, page: Page, limit: int, plot: str | None
) -> Iterator[RenderableType]:
    yield Text(_question(document))
    shown = _shown_rows(document, limit)
    if shown:
        yield _table(document, shown, page)
    if plot is not None:
        yield Text(plot)
    for notice in document.notices:
        yield Text(f"{notice.kind.capitalize()}: {printable(notice.message)}")


def _question(document: SweepDocument) -> str:
    words = [f"vLLM {document.engine_release}"]
    if document.decided_on != "given":
        words.append(f"on the {document.decided_on} end of the memory estimate")
    if document.model is None:
        return ", ".join(words)
    words.insert(0, document.model.architecture)
    return f"{printable(document.model.name)}: {printable(', '.join(words))}"


def _shown_rows(document: SweepDocument, limit: int) -> list[RowDocument]:
    """The first rows, and the best where it is not among them."""
    if not limit or len(document.rows) <= limit:
        return list(document.rows)
    shown = list(document.rows[:limit])
    return shown + [row for row in document.rows[limit:] if row.best]


def _heading(document: SweepDocument, shown: int) -> str:
    points = plural(document.points_total, "point")
    rows = len(document.rows)
    selected = points if rows == document.points_total else f"{rows:,} of {points}"
    return selected if shown == rows else f"{selected}, {shown:,} shown (--limit 0 shows all)"


def _table(document: SweepDocument, shown: Sequence[RowDocument], page: Page) -> RenderableType:
    """The rows, and beneath them why some could not be planned."""
    names = [axis.name for axis in document.axes]
    reasons = list(dict.fromkeys(filter(None, map(_told, shown))))
    lengths = "max_model_len" not in names or any(
        row.values["max_model_len"] in (-1, None) for row in shown
    )
    figures = [each for each in _FIGURES if lengths or each.title != _LENGTH_TITLE]
    columns = [
        *(Column(title=_title(name)) for name in names),
        *(Column(title=each.title) for each in figures),
        Column(title="", align="left"),
    ]
    rows = [
        [
            *(_value(row.values[name], name) for name in names),
            *(each.read(row) for each in figures),
            _remark(row, reasons),
        ]
        for row in shown
    ]
    while needed_width(columns, rows) > page.width and _dropped(columns, rows):
        pass
    table = grid(_heading(document, len(shown)), columns, rows, page)
    notes = [f"[{i}] {printable(reason)}" for i, reason in enumerate(reasons[:_MOST_REASONS], 1)]
    if len(reasons) > _MOST_REASONS:
        notes.append(f"{len(reasons) - _MOST_REASONS:,} more reasons: --format csv")
    return Group(table, *map(Text, notes))


def _dropped(columns: list[Column], rows: list[list[str]]) -> bool:
    """Take out a column that a narrow page can do without; False when none is left."""
    index = next((i for i, each in enumerate(columns) if each.title in _DISPENSABLE), None)
    if index is None:
        return False
    del columns[index]
    for cells in rows:
        del cells[index]
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """A column that every sweep has."""

    title: str
    read: Callable[[RowDocument], str]


# Both follow from other figures; the other formats have them.
_DISPENSABLE: Final = ("blocks", "GPUs")
_LENGTH_TITLE: Final = "tokens of\na request"
_FIGURES: Final = (
    _Figure(title="GPUs", read=lambda row: count(row.gpus)),
    _Figure(
        title="GiB\navailable",
        read=lambda row: UNKNOWN if row.available_bytes is None else gib(row.available_bytes),
    ),
    _Figure(title=_LENGTH_TITLE, read=lambda row: count(row.max_model_len_tokens)),
    _Figure(title="blocks", read=lambda row: count(row.num_blocks)),
    _Figure(title="tokens", read=lambda row: count(row.kv_cache_size_tokens)),
    _Figure(title="requests\nat a time", read=lambda row: requests(row.max_concurrency_requests)),
)


def _told(row: RowDocument) -> str | None:
    """The reason that stands beneath the table; that memory is short is plain to see."""
    return None if row.state == "does_not_fit" else row.reason


def _remark(row: RowDocument, reasons: Sequence[str]) -> str:
    if row.best:
        return _BEST
    told = _told(row)
    if told is None or reasons.index(told) >= _MOST_REASONS:
        return _STATES[row.state]
    return f"[{reasons.index(told) + 1}]"


def _title(name: str) -> str:
    """A flag's name, a word a line: figures are narrow."""
    return name.replace("_", "\n") + ("\nGiB" if name in _SIZES else "")


def _value(value: Scalar, name: str) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return gib(value) if name in _SIZES else _length(value, name)
    return str(value)


def _length(value: int, name: str) -> str:
    return "auto" if name == "max_model_len" and value == -1 else count(value)


def answer(document: SweepDocument) -> str:
    """One sentence: how many fit, and the best."""
    states = Counter(row.state for row in document.rows)
    rows = plural(len(document.rows), "row")
    sentence = f"{states['fits']:,} of {rows} fit"
    if states["refused"]:
        sentence += f", {states['refused']:,} are refused by vLLM"
    best = next((row for row in document.rows if row.best), None)
    if best is not None:
        at = ", ".join(
            f"{name.replace('_', '-')} {_value(value, name)}{_unit(name)}"
            for name, value in best.values.items()
        )
        sentence += f"; best: {printable(at)} ({_holds(best)})"
    if document.interrupted:
        sentence += (
            f". Interrupted: {document.points_done:,} of {document.points_total:,} points were done"
        )
    return f"{sentence}."


def _unit(name: str) -> str:
    return " GiB" if name in _SIZES else ""


def _holds(row: RowDocument) -> str:
    if row.max_concurrency_requests is None:
        return "nothing is cached"
    many = requests(row.max_concurrency_requests)
    return f"{many} requests of {count(row.max_model_len_tokens)} tokens at a time"
