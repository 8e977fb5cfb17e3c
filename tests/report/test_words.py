"""Figures and names as people read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan_cli.report.build import fit_document
from kvplan_cli.report.grid import Page
from kvplan_cli.report.tables import render
from kvplan_cli.report.words import folded, gib, layer_runs, printable
from tests.report import builders

LAYER = "model.layers.{}.self_attn.attn"


def test_layers_are_shown_as_runs() -> None:
    names = [LAYER.format(number) for number in (0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12)]
    assert layer_runs(names) == ["model.layers.{0-4,6-10,12}.self_attn.attn"]


def test_a_single_layer_keeps_its_name() -> None:
    assert layer_runs([LAYER.format(7)]) == [LAYER.format(7)]


def test_names_without_numbers_and_of_several_kinds_stay_apart() -> None:
    names = ["enc.attn", LAYER.format(0), "model.layers.0.mixer", LAYER.format(1)]
    assert layer_runs(names) == [
        "enc.attn",
        "model.layers.{0-1}.self_attn.attn",
        "model.layers.0.mixer",
    ]


def test_folding_breaks_no_number() -> None:
    text = layer_runs([LAYER.format(number) for number in range(0, 200, 3)])[0]
    lines = folded(text, 30)
    assert "".join(lines) == text
    assert all(line.endswith((",", ".")) for line in lines[:-1])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain/name", "plain/name"),
        ("red\x1b[31m", "red\\x1b[31m"),
        ("two\nlines", "two\\nlines"),
        ("\u202eevil", "\\u202eevil"),
        ("half\udc80", "half\\udc80"),
        ("é日本", "é日本"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_gib_has_two_decimals() -> None:
    assert gib(16 << 30) == "16.00"
    assert gib(-(3 << 29)) == "-1.50"
    assert gib(2048 << 30) == "2,048.00"


def test_names_are_data_and_never_markup() -> None:
    evil = "[red]x[/red] [link=http://a]b[/] :smile: \x1b]0;t\x07"
    result = replace(builders.dense(), model=evil, architecture=evil)
    text = render(fit_document(result), Page(width=200, color=True))
    assert "[red]x[/red] [link=http://a]b[/] :smile: \\x1b]0;t\\x07" in text
    assert "\x1b]" not in text
