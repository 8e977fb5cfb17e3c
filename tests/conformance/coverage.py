"""Which of the engine's architectures kvplan plans, and how many vectors prove each.

``python -m tests.conformance.coverage`` writes configs/architectures.json anew from the engine's
registry (tests/data/vectors/engine_registry.json) and the kept vectors.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.conformance.model_cases import engine_args_of, gpu_of, resolve_case
from tests.conformance.run import Case, kind_of, read_cases

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "data" / "vectors"
TARGET = ROOT / "configs" / "architectures.json"


def model_cases() -> list[Case]:
    """Every kept case of a whole model."""
    cases = []
    for file in sorted(VECTORS.glob("*.jsonl.xz")):
        for case in read_cases(file):
            if kind_of(case) != "models":
                break
            cases.append(case)
    return cases


def architecture_of(case: Case) -> str | None:
    """The architecture that a case is about: the engine's class, or the config's name."""
    if "resolved" in case:
        return str(case["resolved"]["architecture"])
    names = case["config"].get("architectures") or [None]
    return None if names[0] is None else str(names[0])


def drafters_of(case: Case) -> list[str]:
    """The engine's classes for the drafter that a case starts with."""
    if "resolved" not in case or not case["engine_args"].get("speculative_config"):
        return []
    drafter = resolve_case(case, engine_args_of(case), gpu_of(case)).settings.drafter
    return [] if drafter is None else list(drafter.architectures)


def coverage() -> dict[str, Any]:
    """The file's content: an architecture without one answered plan has no proof.

    That the kept cases agree is what tests/conformance/test_vectors.py shows.
    """
    registry = json.loads((VECTORS / "engine_registry.json").read_text(encoding="utf-8"))
    kept: Counter[str] = Counter()
    answered: set[str] = set()
    for case in model_cases():
        names = [name for name in (architecture_of(case), *drafters_of(case)) if name is not None]
        kept.update(names)
        if "resolved" in case:
            answered.update(names)
    return {
        "engine": registry["engine"],
        "release": registry["release"],
        "parts": {
            part: {name: kept[name] if name in answered else 0 for name in names}
            for part, names in registry["parts"].items()
        },
    }


def text() -> str:
    """The file as it is kept."""
    return json.dumps(coverage(), indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
