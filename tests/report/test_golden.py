"""What the report shows, compared whole; and no figure is ever cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvplan_cli.report.document import FitDocument
from kvplan_cli.report.grid import Page
from kvplan_cli.report.tables import render
from kvplan_cli.report.words import count, gib, requests
from tests.report.builders import CASES
from tests.report.golden import FOLDER, document, outputs

WIDTHS = (20, 33, 40, 60, 80, 120, 200)


@pytest.mark.parametrize("case", CASES)
def test_output_is_the_golden_one(case: str) -> None:
    for name, text in outputs(case).items():
        assert text == (FOLDER / case / name).read_text(encoding="utf-8"), f"{case}/{name}"


def test_no_golden_without_a_case() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == set(CASES)


def headline_figures(made: FitDocument) -> Iterator[str]:
    """Every figure of the document that a person reads, as the tables write it."""
    yield from (count(group.page_size_bytes) for group in made.groups)
    yield from (count(group.blocks_per_request) for group in made.groups)
    yield from (count(group.block_size_tokens) for group in made.groups)
    yield count(made.longest_context_tokens)
    verdict = made.verdict
    for outcome in (verdict.at_low, verdict.at_likely, verdict.at_high):
        yield count(outcome.num_blocks)
        yield count(outcome.kv_cache_size_tokens)
        yield count(outcome.max_model_len_tokens)
        yield requests(outcome.max_concurrency_requests)
    for budget in made.budgets:
        yield gib(budget.total_memory_bytes_per_rank)
        yield gib(budget.requested_bytes_per_rank)
        for line in budget.lines:
            size = line.bytes_per_rank
            yield from (gib(part) for part in (size.low, size.likely, size.high))
    for part in made.available_bytes_per_worker:
        yield from (gib(size) for size in (part.low, part.likely, part.high))
    if made.plan is not None:
        yield count(made.plan.kv_cache_size_tokens_by_blocks)
        yield count(made.plan.blocks_per_request)
        for worker in made.plan.workers:
            yield count(worker.bytes_per_block)
            yield gib(worker.request_need_bytes)
    if made.refusal is not None and made.refusal.needed_bytes is not None:
        yield gib(made.refusal.needed_bytes)


@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_no_figure_is_cut(case: str, width: int, wrap: bool) -> None:
    made = document(case)
    text = render(made, Page(width=width, wrap_sentences=wrap))
    words = text.split()
    for figure in headline_figures(made):
        assert any(figure in word for word in words), f"{figure} is not whole at {width}"
    assert "…" not in text
    assert "..." not in text


@pytest.mark.parametrize("case", CASES)
def test_lines_keep_to_the_width(case: str) -> None:
    for width in (40, 80, 120):
        text = render(document(case), Page(width=width))
        assert max(len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("case", CASES)
def test_last_line_is_the_whole_answer_off_a_terminal(case: str) -> None:
    text = render(document(case), Page(width=80, wrap_sentences=False))
    last = text.splitlines()[-1]
    assert last.startswith(("Fits: ", "Does not fit: ", "Depends: "))
    assert last.endswith(".")


@pytest.mark.parametrize("case", CASES)
def test_ascii_page_holds_ascii_only(case: str) -> None:
    assert render(document(case), Page(ascii_only=True)).isascii()


def test_color_changes_no_text() -> None:
    import re

    made = document("estimate")
    colored = render(made, Page(color=True))
    assert "\x1b[" in colored
    lines = (line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines())
    assert list(lines) == render(made, Page()).splitlines()
