"""Counted weights against what strangers' vLLM printed."""

from __future__ import annotations

from tests.memory.printed_weights import OFF, figures, summary


def test_most_printed_weights_are_met_to_the_print() -> None:
    found = figures()
    assert len(found) >= 60
    median, ninety, worst = summary([figure.error for figure in found])
    assert median <= 0.003
    assert ninety <= 0.03
    # AWQ: its kernels keep more than the checkpoint has.
    assert worst <= 0.3


def test_what_is_off_says_why_and_nothing_else() -> None:
    for figure in figures():
        assert (abs(figure.error) > OFF) == ("why" in figure.point), figure.point["id"]
