"""Expressions: what they come to, how they are written, and that both agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.formulas.arithmetic import (
    Expression,
    ceil,
    floor,
    largest,
    least,
    minus,
    named,
    over,
    plain,
    plus,
    times,
    values_of,
    with_names,
    with_values,
    worked_out,
)
from kvplan_cli.formulas.formula import Bound, Formula, Relation, Unit
from tests.formulas.reading import calculated, check_equation

SIX, TWO, ONE = named("six", 6), named("two", 2), plain(1)


@pytest.mark.parametrize(
    ("expression", "names", "numbers", "result"),
    [
        (times(plus(SIX, TWO), TWO), "(six + two) x two", "(6 + 2) x 2", 16),
        (plus(times(SIX, TWO), ONE), "six x two + 1", "6 x 2 + 1", 13),
        (minus(SIX, minus(TWO, ONE)), "six - (two - 1)", "6 - (2 - 1)", 5),
        (minus(SIX, plus(TWO, ONE)), "six - (two + 1)", "6 - (2 + 1)", 3),
        (over(SIX, times(TWO, TWO)), "six / (two x two)", "6 / (2 x 2)", 1.5),
        (over(times(SIX, TWO), TWO, TWO), "six x two / two / two", "6 x 2 / 2 / 2", 3),
        (times(SIX, over(ONE, TWO)), "six x (1 / two)", "6 x (1 / 2)", 3),
        (ceil(over(SIX, named("four", 4))), "ceil(six / four)", "ceil(6 / 4)", 2),
        (floor(over(SIX, named("four", 4))), "floor(six / four)", "floor(6 / 4)", 1),
        (largest(SIX, least(TWO, ONE)), "max(six, min(two, 1))", "max(6, min(2, 1))", 6),
        (plus(named("large", 1_234_567), ONE), "large + 1", "1,234,567 + 1", 1_234_568),
        (times(named("share", 0.92), TWO), "share x two", "0.92 x 2", 1.84),
    ],
)
def test_expression(expression: Expression, names: str, numbers: str, result: float) -> None:
    assert with_names(expression) == names
    assert with_values(expression) == numbers
    assert worked_out(expression) == result == calculated(numbers)


def test_one_part_is_itself() -> None:
    assert plus(SIX) is times(SIX) is least(SIX) is largest(SIX) is SIX


def test_values_stand_once_in_order() -> None:
    expression = plus(times(SIX, TWO), ONE, SIX)
    assert list(values_of(expression)) == [("six", 6), ("two", 2)]


def _joined(join: Callable[..., Expression], parts: list[Expression]) -> Expression:
    return join(*parts)


def expressions() -> st.SearchStrategy[Expression]:
    leaves = st.integers(1, 1 << 40).map(plain)

    def grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(parts, min_size=2, max_size=3)
        joined = [
            st.builds(_joined, st.just(join), several)
            for join in (plus, minus, times, least, largest)
        ]
        return st.one_of(
            *joined,
            st.tuples(parts, st.integers(1, 4096)).map(lambda p: over(p[0], plain(p[1]))),
            parts.map(lambda p: ceil(over(p, plain(16)))),
            parts.map(lambda p: floor(over(p, plain(16)))),
        )

    return st.recursive(leaves, grown, max_leaves=6)


@given(expressions())
def test_what_is_written_comes_to_the_same(expression: Expression) -> None:
    assert calculated(with_values(expression)) == worked_out(expression)


def formula(result: int, bound: Bound | None = None) -> Formula:
    return Formula(
        name="figure",
        expression=plus(SIX, TWO),
        result=result,
        unit=Unit.BLOCKS,
        source="here",
        bound=bound,
    )


def test_a_formula_must_come_to_its_result() -> None:
    assert formula(8).figures == "6 + 2 = 8"
    with pytest.raises(AssertionError, match="figure"):
        formula(9)


def test_a_formula_must_keep_to_its_bound() -> None:
    made = formula(8, Bound(relation=Relation.AT_MOST, name="left", number=8))
    assert check_equation(made.figures) == 8
    assert made.figures == "6 + 2 = 8 <= 8"
    with pytest.raises(AssertionError):
        formula(8, Bound(relation=Relation.ABOVE, name="left", number=8))


@pytest.mark.parametrize("text", ["2 x 3 = 7", "2 x 3 = 6 > 6", "7 <= 6"])
def test_reading_back_finds_a_lie(text: str) -> None:
    with pytest.raises(AssertionError):
        check_equation(text)
