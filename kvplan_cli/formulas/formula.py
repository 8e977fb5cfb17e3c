"""One figure with its formula, its values and the engine's function that says so."""

from __future__ import annotations

from enum import Enum

from kvplan_cli.formulas.arithmetic import (
    Expression,
    Number,
    with_names,
    with_values,
    worked_out,
    written,
)
from kvplan_cli.values import dataclass


class Unit(Enum):
    """What a figure counts."""

    BYTES = "bytes"
    BLOCKS = "blocks"
    TOKENS = "tokens"
    REQUESTS = "requests"
    LAYERS = "layers"
    GROUPS = "groups"
    HEADS = "heads"
    BATCHES = "batches"


class Relation(Enum):
    """How a figure stands to what it is held against."""

    AT_MOST = "<="
    ABOVE = ">"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a figure is held against, by name."""

    relation: Relation
    name: str
    number: Number

    def holds(self, number: Number) -> bool:
        """Whether the figure stands so to it."""
        return number <= self.number if self.relation is Relation.AT_MOST else number > self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A figure: ``name`` of ``of`` is ``expression``, which comes to ``result``.

    of: the layers, groups, worker or length that it speaks of; empty for all. result: the plan's
    own figure, not read off the expression. source: the engine's file and function, or where a
    number came from. note: what the names do not say.
    Raises: AssertionError where the expression does not come to the result: it would be a lie.
    """

    name: str
    expression: Expression
    result: Number
    unit: Unit
    source: str
    of: str = ""
    bound: Bound | None = None
    note: str = ""

    def __post_init__(self) -> None:
        number = worked_out(self.expression)
        if number != self.result or (self.bound is not None and not self.bound.holds(number)):
            raise AssertionError(f"{self.name} of {self.of}: {self.figures} is {number}")

    @property
    def names(self) -> str:
        """The formula with names."""
        return with_names(self.expression)

    @property
    def figures(self) -> str:
        """The same with numbers, up to the result and what it is held against."""
        numbers, result = with_values(self.expression), written(self.result)
        text = result if numbers == result else f"{numbers} = {result}"
        if self.bound is None:
            return text
        return f"{text} {self.bound.relation.value} {written(self.bound.number)}"


def derived(
    name: str, expression: Expression, unit: Unit, source: str, of: str = "", note: str = ""
) -> Formula:
    """A figure that stands nowhere in the plan: what its expression comes to."""
    return Formula(
        name=name,
        expression=expression,
        result=worked_out(expression),
        unit=unit,
        source=source,
        of=of,
        note=note,
    )
