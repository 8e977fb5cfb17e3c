"""The figures that README and CHANGELOG give of what is proved are those that the tests hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kvplan_cli.memory.weights.adapted import ADAPTED, INHERITING
from kvplan_cli.settings.lora import WITHOUT_LORA
from tests.conformance.coverage import TARGET, VECTORS
from tests.conformance.run import kind_of, read_cases
from tests.startups.table import CAPACITY, capacity_rows, untold

ROOT = Path(__file__).parents[2]


def _figures(pattern: str, file: str = "README.md") -> list[int]:
    text = " ".join((ROOT / file).read_text(encoding="utf-8").split())
    found = re.search(pattern, text)
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
    for file in ("README.md", "CHANGELOG.md"):
        told = _figures(r"([\d,]+) of the ([\d,]+) architectures", file)
        assert told == [proved, len(counts)]


def test_start_ups() -> None:
    rows = [row for row in capacity_rows() if row.figure in CAPACITY and not untold(row)]
    told = _figures(r"of the ([\d,]+) token and concurrency figures .*?, ([\d,]+) equal the print")
    assert told == [len(rows), sum(row.inside for row in rows)]


def test_adapted_classes() -> None:
    counted = len(ADAPTED) + len(INHERITING)
    assert _figures(r"linears of the (\d+) classes that were held against the engine") == [counted]
    told = _figures(
        r"to the byte, of (\d+) classes.*?The (\d+) classes that take none", "CHANGELOG.md"
    )
    assert told == [counted, len(WITHOUT_LORA)]
