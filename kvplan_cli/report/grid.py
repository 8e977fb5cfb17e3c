"""Tables in which no figure is ever cut: what does not fit side by side is stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from rich.box import Box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvplan_cli.report.words import printable
from kvplan_cli.values import dataclass

# A header line beneath the titles, and nothing else.
_LINED: Final = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
_LINED_ASCII: Final = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)

_TEXT_MINIMUM: Final = 20
_GAP: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the text is drawn on.

    width: columns. ascii_only: the output can't encode line drawing. color: escape codes.
    wrap_sentences: break sentences at ``width``, as a terminal wants it; a file and a pipe
    get each on one line.
    """

    width: int = 80
    ascii_only: bool = False
    color: bool = False
    wrap_sentences: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its title, whether its cells are figures and kept whole, and their side."""

    title: str
    figures: bool = True
    align: Literal["left", "right"] = "right"


def grid(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], page: Page
) -> RenderableType:
    """A table of ``rows`` beneath ``title``, or its stacked form where the page is too narrow."""
    return Group(Text(printable(title), style="bold"), table(columns, rows, page))


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], page: Page) -> RenderableType:
    """``grid`` without its title."""
    if needed_width(columns, rows) <= page.width:
        return _table(columns, rows, ascii_only=page.ascii_only)
    return _stacked(columns, rows)


def _column_width(columns: Sequence[Column], rows: Sequence[Sequence[str]], index: int) -> int:
    title = max(cell_len(line) for line in columns[index].title.split("\n"))
    return max([title, *(cell_len(printable(row[index])) for row in rows)])


def needed_width(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, fold: bool = True
) -> int:
    """Columns that the table needs with every figure whole; texts folded where ``fold``."""
    widths = [_column_width(columns, rows, index) for index in range(len(columns))]
    least = [
        width if column.figures or not fold else min(width, _TEXT_MINIMUM)
        for column, width in zip(columns, widths, strict=True)
    ]
    # Between two columns stand the gap and the box's own blank.
    return sum(least) + (_GAP + 1) * (len(columns) - 1)


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, ascii_only: bool) -> Table:
    drawn = Table(
        box=_LINED_ASCII if ascii_only else _LINED,
        show_edge=False,
        show_header=any(column.title for column in columns),
        pad_edge=False,
        header_style="",
        padding=(0, _GAP, 0, 0),
        safe_box=False,
    )
    for index, column in enumerate(columns):
        figures_width = _column_width(columns, rows, index) if column.figures else None
        drawn.add_column(
            Text(column.title),
            justify=column.align if column.figures else "left",
            no_wrap=column.figures,
            min_width=figures_width,
            overflow="fold",
            vertical="top",
        )
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    return drawn


def _stacked(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Text:
    lines = []
    for row in rows:
        for index, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if cell:
                title = column.title.replace("\n", " ")
                indent = "" if index == 0 else "  "
                lines.append(f"{indent}{title}: {printable(cell)}" if title else printable(cell))
    return Text("\n".join(lines), overflow="fold")
