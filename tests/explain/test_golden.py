"""What explain shows, compared whole; its arithmetic read back; no figure cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan_cli.report.explain_document import ChangeDocument, ExplainDocument, FormulaDocument
from kvplan_cli.report.explain_text import render_explain, shown_figures
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.report.paths import bare, get_path
from kvplan_cli.report.schema import json_schema
from kvplan_cli.report.words import count, requests
from tests.explain.golden import CASES, FOLDER, document, outputs
from tests.formulas.reading import check_equation

WIDTHS = (20, 33, 40, 60, 80, 120, 200)
Validator = pytest.importorskip("jsonschema").Draft202012Validator


@pytest.mark.parametrize("case", CASES)
def test_output_is_the_golden_one(case: str) -> None:
    for name, text in outputs(case).items():
        assert text == (FOLDER / case / name).read_text(encoding="utf-8"), f"{case}/{name}"


def test_no_golden_without_a_case() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_document_keeps_to_its_schema(case: str) -> None:
    Validator(json_schema(ExplainDocument)).validate(json.loads(dumps(document(case))))


def test_every_key_has_a_text() -> None:
    schema = json_schema(ExplainDocument)
    Validator.check_schema(schema)
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    assert all(key["description"] for part in parts for key in part["properties"].values())


def worked_out(made: ExplainDocument) -> list[FormulaDocument]:
    return [*made.figures, *(waste.worked_out for waste in made.waste)]


@pytest.mark.parametrize("case", CASES)
def test_arithmetic_of_the_document_holds(case: str) -> None:
    for figure in worked_out(document(case)):
        assert check_equation(figure.with_values) == figure.result


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("case", CASES)
def test_the_page_prints_that_arithmetic_whole_and_in_order(case: str, width: int) -> None:
    text = (FOLDER / case / f"{width}.txt").read_text(encoding="utf-8")
    printed = " ".join(text.split())
    place = printed.index("Figures")
    for figure in shown_figures(document(case)):
        place = printed.index(f"= {figure.with_values} {figure.unit.removesuffix('s')}", place)


@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_no_figure_is_cut(case: str, width: int, wrap: bool) -> None:
    made = document(case)
    text = render_explain(made, Page(width=width, wrap_sentences=wrap))
    words = text.split()
    figures = {count(f.result) for f in shown_figures(made) if isinstance(f.result, int)}
    shown: dict[str, ChangeDocument] = {}
    for change in made.changes:
        if change.effect == "better" and not change.together:
            shown.setdefault(change.flag, change)
    for change in shown.values():
        if change.standing is not None:
            figures.add(count(change.standing.longest_context_tokens))
            figures.add(count(change.standing.kv_cache_size_tokens))
            value = change.typed.split()[-1]
            figures |= {value} if value.isdecimal() else set()
    for figure in figures:
        assert any(figure in word for word in words), f"{figure} is not whole at {width}"
    assert "…" not in text


@pytest.mark.parametrize("case", CASES)
def test_lines_keep_to_the_width(case: str) -> None:
    for name in ("80.txt", "120.txt", "ascii.txt"):
        text = (FOLDER / case / name).read_text(encoding="utf-8")
        width = 120 if name == "120.txt" else 80
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("case", CASES)
def test_ascii_page_holds_ascii_only(case: str) -> None:
    assert (FOLDER / case / "ascii.txt").read_text(encoding="utf-8").isascii()


@pytest.mark.parametrize("case", CASES)
def test_markdown_tables_keep_their_columns(case: str) -> None:
    tables: list[list[str]] = [[]]
    for line in (FOLDER / case / "explain.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    for table in filter(None, tables):
        columns = {line.replace("\\|", "").count("|") for line in table}
        assert len(columns) == 1
    figures = len(worked_out(document(case)))
    assert f"<summary>{figures} figures" in (FOLDER / case / "explain.md").read_text("utf-8")


def test_color_changes_no_text() -> None:
    import re

    made = document("windows")
    colored = render_explain(made, Page(color=True))
    assert "\x1b[" in colored
    lines = (line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines())
    assert list(lines) == render_explain(made, Page()).splitlines()


@pytest.mark.parametrize("case", CASES)
def test_parts_of_a_map_add_up(case: str) -> None:
    for each in document(case).maps:
        place = 0
        for part in each.parts:
            assert part.offset_bytes == place
            assert part.size_bytes > 0
            place += part.size_bytes
        assert place == each.total_bytes


def test_one_value_is_printed_bare() -> None:
    made = document("windows")
    assert bare(get_path(made, "waste.0.kind")) == "in_flight_reserve"
    assert bare(get_path(made, "fit.plan.num_blocks")) == "14745"


def test_the_last_line_is_the_answer_off_a_terminal() -> None:
    for case in CASES:
        text = render_explain(document(case), Page(width=80, wrap_sentences=False))
        last = text.splitlines()[-1]
        assert last.startswith(("Fits: ", "Does not fit: "))
        assert requests(document(case).now.max_concurrency_requests) in last or "not" in last
