"""The runner itself: it must notice every spoiled figure."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.run import Case, kind_of, read_lines, run_case
from tests.conformance.test_vectors import VECTORS

ONE_TENSOR = '"kv_cache_tensors": [{'
RUN = Path(__file__).with_name("run.py")


def first(file: str, wanted: str) -> dict[str, Any]:
    """The first case of a file whose text holds ``wanted``; small ones first."""
    lines = (line for line in read_lines(VECTORS / file) if wanted in line)
    case: dict[str, Any] = json.loads(min(lines, key=len))
    return case


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all scalars in a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def spoil(document: Any, path: tuple[Any, ...]) -> None:
    """Change the scalar at a path."""
    for key in path[:-1]:
        document = document[key]
    old = document[path[-1]]
    if isinstance(old, bool):
        document[path[-1]] = not old
    elif isinstance(old, int | float):
        document[path[-1]] = old + 1
    elif old is None:
        document[path[-1]] = 7
    else:
        document[path[-1]] = old + "x"


ANSWERS = {
    "plan": ("results",),
    "spec_level": (
        "max_memory_usage_bytes",
        "estimate_max_model_len",
        "is_kv_cache_spec_uniform",
        "check_enough_kv_cache_memory",
    ),
    "hisparse": ("groups", "tensors", "num_blocks", "host_num_blocks", "max_concurrency"),
    "drafters": ("groups",),
}
# What is asked again within the answers, and the log's lines that are no warnings.
ECHOES = {
    "available_memory",
    "log",
    "enable_prefix_caching",
    "cache_hit_alignment_tokens",
    "has_mamba_layers",
    "needs_kv_cache_zeroing",
    "estimated_max_model_len",
}


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("plan.jsonl.xz", ONE_TENSOR),
        ("plan.jsonl.xz", "estimated maximum model length"),
        ("plan.jsonl.xz", "UniformTypeKVCacheSpecs"),
        ("spec_level.jsonl.xz", "To serve at least"),
        ("hisparse.jsonl.xz", "hisparse_hot"),
        ("drafters.jsonl.xz", '"is_eagle_group": true'),
    ],
)
def test_every_spoiled_figure_is_noticed(file: str, wanted: str) -> None:
    case = first(file, wanted)
    assert run_case(case) == []
    answers = ANSWERS[kind_of(case)]
    paths = [
        path
        for path in leaves(case)
        if path[0] in answers and not ECHOES.intersection(path) and len(path) >= 1
    ]
    assert paths
    for path in paths:
        spoiled: Case = copy.deepcopy(case)
        spoil(spoiled, path)
        assert run_case(spoiled), f"unnoticed: {path}"


def test_a_missing_group_is_noticed() -> None:
    case = first("plan.jsonl.xz", ONE_TENSOR)
    case["results"][0]["global_groups"].pop()
    assert run_case(case)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *arguments], capture_output=True, text=True, check=False
    )


def test_the_process_counts_and_exits(tmp_path: Path) -> None:
    good = first("spec_level.jsonl.xz", "null")
    bad = copy.deepcopy(good)
    bad["max_memory_usage_bytes"] += 1
    file = tmp_path / "cases.jsonl"
    file.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    ended = run(str(file))
    assert ended.returncode == 1
    assert "max_memory_usage_bytes: expected" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "1 passed, 1 failed"


def test_what_was_not_run_never_counts_as_passed(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(first("spec_level.jsonl.xz", "null")) + "\n")
    ended = run(str(file), "--only", "no such name")
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-2:] == [
        "only 'no such name' was run; not run: 1",
        "0 passed, 0 failed",
    ]


def test_a_case_of_unknown_form_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({"name": "what"}) + "\n")
    assert run(str(file)).returncode != 0
