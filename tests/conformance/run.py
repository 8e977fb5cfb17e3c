"""Puts vectors printed by the engine to kvplan: ``run.py FILE...`` (JSON lines, plain or .xz).

Prints each difference by path and ends with 'N passed, M failed'; exits 1 on any failure.
``--only TEXT`` runs the cases whose name or kind holds TEXT and counts the rest as not run.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance.drafter_cases import run_drafter_case
from tests.conformance.hisparse_cases import run_hisparse_case
from tests.conformance.plan_cases import run_plan_case
from tests.conformance.spec_level_cases import run_spec_level_case

Case = Mapping[str, Any]
MAX_LINES_PER_CASE = 20


def read_lines(path: Path) -> Iterator[str]:
    """The cases of a file of JSON lines, as text."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            yield from (line for line in stream if line.strip())
    else:
        with path.open(encoding="utf-8") as stream:
            yield from (line for line in stream if line.strip())


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file of JSON lines."""
    return map(json.loads, read_lines(path))


def kind_of(case: Case) -> str:
    """Which kind of case this is, by its form."""
    if "runner_bytes" in case:
        return "runner"
    if "engine_args" in case:
        return "models"
    if "workers" in case:
        return "plan" if "results" in case else "drafters"
    if "host_pool_gib" in case:
        return "hisparse"
    if "check_enough_kv_cache_memory" in case:
        return "spec_level"
    raise ValueError(f"case {case.get('name')!r} is of no known form")


def run_case(case: Case) -> list[str]:
    """Every difference of one case; a crash of kvplan is a difference."""
    try:
        return RUNNERS[kind_of(case)](case)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def _run_model_case(case: Case) -> list[str]:
    from tests.conformance.model_cases import run_model_case

    return run_model_case(case)


RUNNERS: Mapping[str, Callable[[Case], list[str]]] = {
    "plan": run_plan_case,
    "drafters": run_drafter_case,
    "spec_level": run_spec_level_case,
    "hisparse": run_hisparse_case,
    "models": _run_model_case,
}


def main(arguments: list[str]) -> int:
    """Run the files; the process's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", help="run cases whose name or kind holds this")
    options = parser.parse_args(arguments)
    passed = failed = not_run = 0
    for path in options.files:
        for case in read_cases(path):
            if options.only not in f"{kind_of(case)} {case['name']}":
                not_run += 1
                continue
            lines = run_case(case)
            passed, failed = passed + (not lines), failed + bool(lines)
            for line in lines[:MAX_LINES_PER_CASE]:
                print(f"{case['name']}: {line}")
            if len(lines) > MAX_LINES_PER_CASE:
                print(f"{case['name']}: and {len(lines) - MAX_LINES_PER_CASE} more")
    if not_run:
        print(f"only {options.only!r} was run; not run: {not_run}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
