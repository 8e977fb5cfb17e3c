"""What solve and sweep show, compared whole; no figure is cut; every document keeps its schema."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps, plain
from kvplan_cli.report.schema import json_schema
from kvplan_cli.report.solve_document import SolveDocument
from kvplan_cli.report.solve_text import render_solve
from kvplan_cli.report.sweep_document import RowDocument, SweepDocument
from kvplan_cli.report.sweep_text import render_sweep
from kvplan_cli.report.words import count, requests
from tests.capacity.golden import FOLDER, SOLVED, SWEPT, outputs, solved, swept

WIDTHS = (20, 40, 60, 80, 120)
Validator = pytest.importorskip("jsonschema").Draft202012Validator


@pytest.mark.parametrize("case", [*SOLVED, *SWEPT])
def test_output_is_the_golden_one(case: str) -> None:
    for name, text in outputs(case).items():
        assert text == (FOLDER / case / name).read_text(encoding="utf-8"), f"{case}/{name}"


def test_no_golden_without_a_case() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == {*SOLVED, *SWEPT}


@pytest.mark.parametrize("case", SOLVED)
def test_solve_keeps_to_its_schema(case: str) -> None:
    Validator(json_schema(SolveDocument)).validate(json.loads(dumps(solved(case))))


@pytest.mark.parametrize("case", SWEPT)
def test_sweep_keeps_to_its_schema(case: str) -> None:
    document, texts = swept(case)
    Validator(json_schema(SweepDocument)).validate(json.loads(dumps(document)))
    lines = [json.loads(line) for line in texts["rows.jsonl"].splitlines()]
    assert lines == [plain(row) for row in document.rows]
    for line in lines:
        Validator(json_schema(RowDocument)).validate(line)


@pytest.mark.parametrize("document_type", [SolveDocument, SweepDocument])
def test_every_key_has_a_text(document_type: type) -> None:
    schema = json_schema(document_type)
    Validator.check_schema(schema)
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    assert all(key["description"] for part in parts for key in part["properties"].values())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", SWEPT)
def test_no_figure_of_a_sweep_is_cut(case: str, width: int) -> None:
    document, _ = swept(case)
    words = render_sweep(document, Page(width=width), 0).split()
    for row in document.rows:
        figures = [count(row.kv_cache_size_tokens), requests(row.max_concurrency_requests)]
        for figure in figures:
            assert any(figure in word for word in words), figure
    assert "…" not in "".join(words)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", SOLVED)
def test_no_figure_of_a_solution_is_cut(case: str, width: int) -> None:
    document = solved(case)
    words = render_solve(document, Page(width=width)).split()
    for cost in document.request_costs:
        assert any(count(cost.request_tokens) in word for word in words)
    for each in document.tried:
        if each.max_concurrency_requests is not None:
            assert any(requests(each.max_concurrency_requests) in word for word in words)


@pytest.mark.parametrize("case", [*SOLVED, *SWEPT])
def test_lines_keep_to_the_width(case: str) -> None:
    for name in ("80.txt", "120.txt"):
        text = (FOLDER / case / name).read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= int(name.removesuffix(".txt"))


@pytest.mark.parametrize("case", SWEPT)
def test_csv_reads_back(case: str) -> None:
    document, texts = swept(case)
    rows = list(csv.DictReader(io.StringIO(texts["rows.csv"])))
    assert [row["state"] for row in rows] == [row.state for row in document.rows]
    assert [row["best"] for row in rows].count("true") == any(row.best for row in document.rows)


def test_a_long_table_is_cut_and_says_so_and_keeps_the_best() -> None:
    document, _ = swept("sweep-ranks")
    text = render_sweep(document, Page(width=100), 2)
    assert "15 points, 3 shown (--limit 0 shows all)" in text
    assert "best" in text.split("\n\n")[1]


@pytest.mark.parametrize("name", ["plot.txt", "plot-ascii.txt"])
def test_a_plot_keeps_to_the_width(name: str) -> None:
    _, texts = swept("sweep-ranks")
    width = 60 if "ascii" in name else 80
    assert max(map(len, texts[name].splitlines())) <= width
    assert texts[name].isascii() == ("ascii" in name)
