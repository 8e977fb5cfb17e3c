"""What release 0.32.0 answered, held against its rules."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from tests.conformance.run import read_lines, run_case
from tests.conformance.test_vectors import VECTORS

FILE = VECTORS / "older" / "models-0.32.0.jsonl.xz"
PARTS = 4


@pytest.mark.parametrize("index", range(PARTS))
def test_models_equal_the_older_engine(index: int) -> None:
    cases = list(map(json.loads, islice(read_lines(FILE), index, None, PARTS)))
    assert all(case["vllm"] == "0.32.0" for case in cases)
    wrong = [f"{case['name']}: {line}" for case in cases for line in run_case(case)]
    assert wrong == []


def test_no_answer_is_lost() -> None:
    assert sum(1 for _ in read_lines(FILE)) == 105
