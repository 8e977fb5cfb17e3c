"""All of the engine's kept vectors, in the project's own tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.conformance.run import Case, read_lines, run_case

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
# Parts of one file, so that two cores can share it.
PARTS = 8
# Each file, and how many cases it holds.
COUNTS = {
    "plan.jsonl.xz": 3015,
    "spec_level.jsonl.xz": 400,
    "hisparse.jsonl.xz": 133,
    "drafters.jsonl.xz": 600,
    "edges.jsonl.xz": 4,
    "models.jsonl.xz": 1238,
    "more_models.jsonl.xz": 2186,
    "latent.jsonl.xz": 392,
    "states.jsonl.xz": 607,
    "drafter_models.jsonl.xz": 443,
    "more_drafters.jsonl.xz": 129,
    "wrappers_1.jsonl.xz": 441,
    "wrappers_2.jsonl.xz": 556,
    "text_models.jsonl.xz": 620,
    "small.jsonl.xz": 116,
    "images.jsonl.xz": 169,
    "encoders.jsonl.xz": 284,
    "formats.jsonl.xz": 67,
    "library.jsonl.xz": 212,
    "flags.jsonl.xz": 263,
}


def part(file: str, index: int) -> Iterator[Case]:
    """Every PARTS-th case of a file."""
    return map(json.loads, islice(read_lines(VECTORS / file), index, None, PARTS))


@pytest.mark.parametrize("index", range(PARTS))
@pytest.mark.parametrize("file", COUNTS)
def test_every_case_equals_the_engine(file: str, index: int) -> None:
    cases = list(part(file, index))
    wrong = [f"{case['name']}: {line}" for case in cases for line in run_case(case)]
    assert wrong == []


def test_no_vector_is_lost() -> None:
    files = sorted(VECTORS.glob("*.jsonl.xz"))
    assert {file.name: sum(1 for _ in read_lines(file)) for file in files} == COUNTS
