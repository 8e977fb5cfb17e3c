"""What a diff shows, compared whole; no figure is cut; its laws."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvplan_cli.report.diff_document import ChangeDocument, DiffDocument
from kvplan_cli.report.diff_markdown import markdown
from kvplan_cli.report.diff_text import render_diff
from kvplan_cli.report.diff_words import value
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.report.schema import json_schema
from tests.diff.golden import CASES, FOLDER, compared, outputs

Validator = pytest.importorskip("jsonschema").Draft202012Validator
WIDTHS = (20, 40, 60, 80, 120)


@pytest.mark.parametrize("case", CASES)
def test_output_is_the_golden_one(case: str) -> None:
    for name, text in outputs(case).items():
        assert text == (FOLDER / case / name).read_text(encoding="utf-8"), f"{case}/{name}"


def test_no_golden_without_a_case() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_document_keeps_to_its_schema(case: str) -> None:
    Validator(json_schema(DiffDocument)).validate(json.loads(dumps(compared(CASES[case]))))


def test_every_key_has_a_text() -> None:
    schema = json_schema(DiffDocument)
    Validator.check_schema(schema)
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    assert all(key["description"] for part in parts for key in part["properties"].values())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_no_figure_is_cut(case: str, width: int) -> None:
    document = compared(CASES[case])
    words = render_diff(document, Page(width=width)).split()
    for change in document.changes:
        for each in (change.a, change.b):
            if not isinstance(each, str | None):
                assert value(change, each) in words


@pytest.mark.parametrize("case", CASES)
def test_lines_keep_to_the_width(case: str) -> None:
    for name in ("80.txt", "120.txt"):
        text = (FOLDER / case / name).read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= int(name.removesuffix(".txt"))


@pytest.mark.parametrize("case", CASES)
def test_markdown_keeps_its_columns(case: str) -> None:
    table = [line for line in markdown(compared(CASES[case])).split("\n") if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 7 for line in table)


def turned(change: ChangeDocument) -> tuple[Any, ...]:
    return change.key, change.end, change.b, change.a


def test_the_other_way_round_every_sign_turns() -> None:
    there = compared("gemma-3-27b --kv-mem 40GiB --b.kv-mem 20GiB --b.block-size 32")
    back = compared("gemma-3-27b --kv-mem 40GiB --a.kv-mem 20GiB --a.block-size 32")
    assert {turned(change) for change in there.changes} == {
        (change.key, change.end, change.a, change.b) for change in back.changes
    }
    signs = {(c.key, c.end): (c.change, c.effect) for c in there.changes}
    opposite = {"better": "worse", "worse": "better", None: None}
    for change in back.changes:
        before, effect = signs[change.key, change.end]
        assert change.change == (None if before is None else -before)
        assert change.effect == opposite[effect]


def test_what_matters_most_stands_first() -> None:
    document = compared(CASES["refused"])
    parts = [change.part for change in document.changes]
    order = ["verdict", "capacity", "memory", "groups", "settings"]
    assert parts == sorted(parts, key=order.index)
    assert document.changes[0].key == "verdict.answer"
    assert document.changes[0].effect == "worse"


def test_nothing_differs_from_itself() -> None:
    document = compared(CASES["same"])
    assert (document.differs, document.changes, document.exit_code) == (False, (), 0)
