"""The table of strangers' start-ups holds, and every difference is explained."""

from __future__ import annotations

import statistics

from kvplan_cli.units import GIB
from tests.memory.printed_weights import OFF
from tests.startups import memory_cases
from tests.startups.cases import explained, startups
from tests.startups.table import CAPACITY, Row, capacity_rows, memory_rows, report, untold

ROWS = tuple(capacity_rows())
MEMORY_ROWS = tuple(memory_rows())


def _of(figure: str) -> list[Row]:
    return [row for row in MEMORY_ROWS if row.figure == figure]


def test_tokens_and_concurrency_equal_the_prints() -> None:
    rows = [row for row in ROWS if row.figure in CAPACITY and not untold(row)]
    assert len(rows) >= 110
    assert sum(row.inside for row in rows) >= 0.95 * len(rows)


def test_every_difference_is_explained_and_no_explanation_is_stale() -> None:
    kept = explained()
    off = {(row.id, row.figure) for row in ROWS if not row.inside}
    assert {row_id for row_id, _ in off} >= set(kept["untold"])
    told = {(row_id, figure) for row_id, figure in off if row_id not in kept["untold"]}
    assert told == {(row_id, figure) for row_id, row in kept["off"].items() for figure in row}


def test_weights_that_are_off_say_why_and_nothing_else() -> None:
    off = {row.id for row in _of("weights") if row.error > OFF and not row.inside}
    assert off == set(explained()["weights"])


def test_what_is_supplied_is_needed() -> None:
    ids = {startup.id for startup in startups()}
    for kind in ("supplied", "untold", "off"):
        assert set(explained()[kind]) <= ids
    for entry in explained()["supplied"].values():
        assert entry["why"]


def test_start_ups_that_are_not_compared_say_why() -> None:
    for startup in startups():
        assert (startup.question is None) == (startup.why is not None)
    assert sum(startup.question is not None for startup in startups()) >= 64


def test_available_memory_from_the_card_alone() -> None:
    rows = _of("available, text")
    assert len(rows) >= 23
    assert sum(row.inside for row in rows) >= 0.9 * len(rows)
    cards = {
        case.id: case.budget.total_memory_bytes / GIB
        for case in memory_cases.memory_cases()
        if memory_cases.has_total(case)
    }
    assert statistics.median(row.error / cards[row.id] for row in rows) <= 0.01


def test_peaks_and_weights() -> None:
    peaks, weights = _of("transient"), _of("weights")
    assert all(row.inside for row in peaks)
    assert statistics.median(row.error for row in peaks) <= 0.05
    assert statistics.median(row.error for row in weights) <= 0.003


def test_the_table_is_printed_whole() -> None:
    text = "\n".join(report())
    for row in (*ROWS, *MEMORY_ROWS):
        assert row.printed in text
    for figure in (*CAPACITY, "needed", "estimated_length", "weights", "transient", "available"):
        assert f"{figure}" in text
    assert "median" in text
