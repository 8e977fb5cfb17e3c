"""Which rows of a sweep are shown, in which order, and which is best.

Conditions are fixed comparisons of a column with a value; nothing is evaluated.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import nearest, shown
from kvplan_cli.loader.sizes import is_engine_integer, parse_engine_integer, parse_size
from kvplan_cli.results_sweep import Axis, Row, Selection, State, Value
from kvplan_cli.values import dataclass

FIGURES: Final = (
    "max_concurrency",
    "kv_cache_size_tokens",
    "num_blocks",
    "max_model_len",
    "available_bytes",
    "gpus",
)
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_CONDITION: Final = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(>=|<=|!=|==|>|<|=)\s*(\S+)\s*")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
FORM: Final = 'COLUMN, then >= <= > < = or !=, then a value, as in "max_concurrency>=8"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison that a row must pass. value: a number, or a text for = and !=."""

    column: str
    operator: str
    value: float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A column to sort by."""

    column: str
    descending: bool


def columns(axes: Sequence[Axis]) -> tuple[str, ...]:
    """What conditions and sorting may name."""
    return (*(axis.name for axis in axes), "state", *FIGURES)


def read_condition(text: str, axes: Sequence[Axis]) -> Condition:
    """``max_concurrency>=8``. Raises: InputError."""
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        raise _fault("--where", f"{shown(text)} is no comparison", FORM)
    column = read_column(matched[1], axes, "--where")
    value = _value(matched[3], text)
    if isinstance(value, str) and matched[2] not in ("=", "==", "!="):
        raise _fault("--where", f"{shown(text)} orders a text", "compare texts with = or !=")
    return Condition(column=column, operator=matched[2], value=value)


def read_order(text: str, axes: Sequence[Axis]) -> tuple[Order, ...]:
    """``-max_concurrency,gpus``: a minus puts the largest first. Raises: InputError."""
    return tuple(
        Order(
            column=read_column(word.strip().lstrip("-+"), axes, "--sort"),
            descending=word.strip().startswith("-"),
        )
        for word in text.split(",")
    )


def read_column(word: str, axes: Sequence[Axis], where: str) -> str:
    """A column's name in its one spelling. Raises: InputError with the nearest."""
    name = word.replace("-", "_")
    known = columns(axes)
    if name in known:
        return name
    near = nearest(name, known)
    hint = f"did you mean {near}? " if near else ""
    raise _fault(where, f"there is no column {shown(word)}", f"{hint}columns: {', '.join(known)}")


def _value(text: str, whole: str) -> float | str:
    if _NUMBER.fullmatch(text):
        return float(text)
    if is_engine_integer(text):
        return float(parse_engine_integer(text, "--where"))
    if re.fullmatch(r"\d+(\.\d+)?\s*[KMGTkmgt]i?B", text):
        return float(parse_size(text, "--where"))
    return text


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def select(
    rows: Sequence[Row],
    axes: Sequence[Axis],
    where: Sequence[Condition] = (),
    order: Sequence[Order] = (),
) -> Selection:
    """Filter and sort the rows, and find the best.

    Best is the first that fits of a sorted table, else the one with most requests at a time
    (of equals the first).
    """
    cells = {column: _reader(column, axes) for column in columns(axes)}
    kept = [row for row in rows if all(_passes(row, each, cells) for each in where)]
    # The last column first: sorting is stable.
    for each in reversed(order):
        kept = _sorted(kept, cells[each.column], descending=each.descending)
    fitting = [i for i, row in enumerate(kept) if row.state is State.FITS]
    best = None
    if fitting:
        best = fitting[0] if order else max(fitting, key=lambda i: kept[i].max_concurrency or 0.0)
    return Selection(rows=tuple(kept), best=best)


Cell = Callable[[Row], Value]


def _reader(column: str, axes: Sequence[Axis]) -> Cell:
    for index, axis in enumerate(axes):
        if axis.name == column == "max_model_len":
            # ``auto`` and the default are lengths once they are planned.
            return lambda row: row.values[index] if row.max_model_len is None else row.max_model_len
        if axis.name == column:
            return lambda row: row.values[index]
    if column == "state":
        return lambda row: row.state.value
    return operator.attrgetter(column)


def _passes(row: Row, condition: Condition, cells: Mapping[str, Cell]) -> bool:
    """A row without the figure passes no condition on it."""
    have, need = cells[condition.column](row), condition.value
    if have is None:
        return False
    if isinstance(have, bool | str) or isinstance(need, str):
        equal = str(have).lower() == str(need).lower()
        return equal if condition.operator in ("=", "==") else not equal
    return _OPERATORS[condition.operator](have, need)


def _sorted(rows: Sequence[Row], read: Cell, *, descending: bool) -> list[Row]:
    """Rows without a value come last either way; numbers stand before texts."""
    known = [row for row in rows if read(row) is not None]
    unknown = [row for row in rows if read(row) is None]

    def key(row: Row) -> tuple[bool, float, str]:
        value = read(row)
        if isinstance(value, str):
            return True, 0.0, value
        return False, float(value or 0), ""

    return sorted(known, key=key, reverse=descending) + unknown
