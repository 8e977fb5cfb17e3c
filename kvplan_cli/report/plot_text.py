"""A picture of a sweep in characters, for a terminal or a log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from kvplan_cli.report.grid import Page
from kvplan_cli.report.series import Picture
from kvplan_cli.report.words import printable
from kvplan_cli.values import dataclass

_MARKS: Final = "●▲■◆○△□◇"
_ASCII_MARKS: Final = "*+xo#@%&"
_HEIGHT: Final = 16
_LEAST_WIDTH: Final = 16
# A mark for the way between two points, and the frame.
_DOT, _ASCII_DOT = "·", "."
_SIDE, _ASCII_SIDE = "│", "|"
_FOOT, _ASCII_FOOT = "─", "-"
_CORNER, _ASCII_CORNER = "└", "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Values to cells 0..cells-1, by difference or by ratio."""

    low: float
    high: float
    cells: int
    log: bool

    def cell(self, value: float) -> int:
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(value)
        return round((at - low) / (high - low) * (self.cells - 1)) if high > low else 0

    def value(self, cell: int) -> float:
        share = cell / (self.cells - 1)
        if self.log:
            return self.low * math.pow(self.high / self.low, share)
        return self.low + (self.high - self.low) * share


def plot_text(picture: Picture, page: Page) -> str:
    """The picture at the page's width, without a line feed at its end."""
    points = [point for line in picture.lines for point in line.points]
    if not points:
        return "Nothing to draw: no row fits."
    xs, ys = [x for x, _ in points], [y for _, y in points]
    up = _Scale(
        low=min(ys) if picture.log_y else min(0.0, *ys),
        high=max(ys),
        cells=_HEIGHT,
        log=picture.log_y,
    )
    labels = _labels(up)
    margin = max(len(label) for label in labels) + 2
    width = max(_LEAST_WIDTH, page.width - margin)
    right = _Scale(low=min(xs), high=max(xs), cells=width, log=picture.log_x)
    field = _drawn(picture, right, up, page)
    side = _ASCII_SIDE if page.ascii_only else _SIDE
    lines = [f"{picture.y_title}{' (log)' if picture.log_y else ''}"]
    for label, cells in zip(labels, reversed(field), strict=True):
        lines.append(f"{label:>{margin - 2}} {side}{''.join(cells)}".rstrip())
    lines += _foot(picture, right, margin, page)
    return "\n".join([*lines, *_legend(picture, page)])


def _labels(up: _Scale) -> list[str]:
    """A figure beside every fifth line, from the top down."""
    last = up.cells - 1
    return [
        _figure(up.value(cell)) if (last - cell) % 5 == 0 else "" for cell in range(last, -1, -1)
    ]


def _figure(value: float) -> str:
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def _drawn(picture: Picture, right: _Scale, up: _Scale, page: Page) -> list[list[str]]:
    field = [[" "] * right.cells for _ in range(up.cells)]
    marks = _ASCII_MARKS if page.ascii_only else _MARKS
    dot = _ASCII_DOT if page.ascii_only else _DOT
    placed = [[(right.cell(x), up.cell(y)) for x, y in line.points] for line in picture.lines]
    for cells in placed:
        for column, row in _between(cells):
            field[row][column] = dot
    for mark, cells in zip(marks, placed, strict=False):
        for column, row in cells:
            field[row][column] = mark
    return field


def _between(cells: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The cells of the straight ways from point to point."""
    for (x0, y0), (x1, y1) in pairwise(cells):
        for column in range(x0 + 1, x1):
            yield column, round(y0 + (y1 - y0) * (column - x0) / (x1 - x0))


def _foot(picture: Picture, right: _Scale, margin: int, page: Page) -> Iterator[str]:
    corner, foot = (_ASCII_CORNER, _ASCII_FOOT) if page.ascii_only else (_CORNER, _FOOT)
    yield " " * (margin - 1) + corner + foot * right.cells
    low, high = _figure(right.low), _figure(right.high)
    title = f"{picture.x_title}{' (log)' if picture.log_x else ''}"
    room = right.cells - len(low) - len(high)
    if room >= len(title) + 2:
        yield f"{' ' * margin}{low}{title:^{room}}{high}"
    else:
        yield f"{' ' * margin}{low}{' ' * max(1, room)}{high}"
        yield f"{' ' * margin}{title}"


def _legend(picture: Picture, page: Page) -> Iterator[str]:
    marks = _ASCII_MARKS if page.ascii_only else _MARKS
    for mark, line in zip(marks, picture.lines, strict=False):
        if line.name:
            yield f"{mark} {printable(line.name)}"
    if picture.left_out:
        yield f"{picture.left_out:,} more lines are left out; narrow them with --where"
