"""What a plot of a sweep shows: a figure over one axis, a line for each value of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.results_sweep import Axis, Row, Selection, State, Unit, Value
from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass

MOST_SERIES: Final = 8
_LOG_FROM: Final = 10
# Figures a row may be drawn by, with how the plot calls them.
HEIGHTS: Final = {
    "max_concurrency": "requests at a time",
    "kv_cache_size_tokens": "tokens in the KV cache",
    "num_blocks": "blocks",
    "max_model_len": "tokens of a request",
    "available_bytes": "GiB for the KV cache",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points of one line, from left to right. name: empty where there is one line only."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Lines with their axes. log_x, log_y: that axis spans so much that it is drawn by ratio.

    left_out: lines beyond those that can be told apart.
    """

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    log_x: bool
    log_y: bool
    left_out: int


def picture(title: str, axes: Sequence[Axis], selection: Selection, height: str) -> Picture:
    """Lay the rows that fit out as lines.

    The numeric axis with most values runs to the right. Raises: InputError where there is none.
    """
    across = _across(axes)
    by_line: dict[str, list[tuple[float, float]]] = {}
    for row in selection.rows:
        y = getattr(row, height)
        if row.state is State.FITS and y is not None:
            x = _number(row.values[across], axes[across].unit)
            line = by_line.setdefault(_name(row, axes, across), [])
            line.append((x, y / GIB if height == "available_bytes" else float(y)))
    lines = tuple(
        Line(name=name, points=tuple(sorted(points)))
        for name, points in list(by_line.items())[:MOST_SERIES]
    )
    return Picture(
        title=title,
        x_title=_title(axes[across]),
        y_title=HEIGHTS[height],
        lines=lines,
        log_x=_spans([x for line in lines for x, _ in line.points]),
        log_y=_spans([y for line in lines for _, y in line.points]),
        left_out=max(0, len(by_line) - MOST_SERIES),
    )


def _across(axes: Sequence[Axis]) -> int:
    numeric = [
        index
        for index, axis in enumerate(axes)
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in axis.values)
    ]
    if not numeric:
        raise InputError(
            Problem(
                where="--plot",
                reason="no axis has numbers only",
                way_out="vary a number too, as in --vary max-model-len=8k..128k*2",
            )
        )
    return max(numeric, key=lambda index: len(axes[index].values))


def _number(value: Value, unit: Unit) -> float:
    assert isinstance(value, int | float)
    return value / GIB if unit is Unit.BYTES else float(value)


def _title(axis: Axis) -> str:
    name = axis.name.replace("_", "-")
    return f"{name}, GiB" if axis.unit is Unit.BYTES else name


def _name(row: Row, axes: Sequence[Axis], across: int) -> str:
    words = []
    for index, (axis, value) in enumerate(zip(axes, row.values, strict=True)):
        if index != across:
            words.append(f"{axis.name.replace('_', '-')} {_shown(value, axis.unit)}")
    return ", ".join(words)


def _shown(value: Value, unit: Unit) -> str:
    if value is None:
        return "default"
    if unit is Unit.BYTES:
        return f"{_number(value, unit):g} GiB"
    return f"{value:,}" if type(value) is int else str(value)


def _spans(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) / min(values) >= _LOG_FROM
