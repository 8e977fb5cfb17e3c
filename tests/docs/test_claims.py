"""The README's figures of what is proved are those that the tests hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.conformance.coverage import TARGET, VECTORS
from tests.conformance.run import kind_of, read_cases
from tests.startups.table import CAPACITY, capacity_rows, untold

README = " ".join(Path(__file__).parents[2].joinpath("README.md").read_text("utf-8").split())


def _figures(pattern: str) -> list[int]:
    found = re.search(pattern, README)
    assert found is not None, pattern
    return [int(figure.replace(",", "")) for figure in found.groups()]


def test_kept_answers() -> None:
    kinds = [kind_of(case) for file in VECTORS.glob("*.xz") for case in read_cases(file)]
    models = kinds.count("models")
    assert _figures(r"available: ([\d,]+) planner cases and ([\d,]+) models under flags") == [
        len(kinds) - models,
        models,
    ]


def test_architectures() -> None:
    parts = json.loads(TARGET.read_text(encoding="utf-8"))["parts"]
    counts = [count for names in parts.values() for count in names.values()]
    proved = sum(count > 0 for count in counts)
    assert _figures(r"([\d,]+) of the ([\d,]+) architectures") == [proved, len(counts)]


def test_start_ups() -> None:
    rows = [row for row in capacity_rows() if row.figure in CAPACITY and not untold(row)]
    told = _figures(r"of the ([\d,]+) token and concurrency figures .*?, ([\d,]+) equal the print")
    assert told == [len(rows), sum(row.inside for row in rows)]
