"""Puts the kept cases to an installed engine of any release, and says which figures changed.

    python tests/conformance/make_vectors.py --engine-python PATH [--only TEXT] [--every N]
                                             [--out DIR] [FILE...]

PATH: an interpreter that has vLLM and what it imports, without a card. FILE: kept vectors, all
of them by default. ``--out`` writes the answers in the kept form, under the kept names. Exits 0
when every figure is the kept one, 1 otherwise. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance.changes import changes, summary
from tests.conformance.drafter_cases import RELEASE as DRAFTER_RELEASE
from tests.conformance.plan_cases import registration_order
from tests.conformance.run import Case, kind_of, read_cases

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "data" / "vectors"
# Where the planner alone is asked, for it never looks at the card.
PLANNER_CARD = {"name": "NVIDIA H100 80GB HBM3", "capability": [9, 0], "total_memory": 85520809984}
MODEL_INPUTS = ("name", "source", "config", "extra_files", "env", "engine_args", "gpu")
_RELEASES = {"drafters": DRAFTER_RELEASE}
_VERSION = "import importlib.metadata as m; print(m.version('vllm'))"


def main(arguments: Sequence[str]) -> int:
    """Ask, compare, print; the process's exit code."""
    options = _options(arguments)
    release = _run(options.engine_python, "-c", _VERSION).strip()
    kept: dict[Path, list[Case]] = {}
    for path in options.files or sorted(VECTORS.glob("*.jsonl.xz")):
        cases = [case for case in read_cases(path) if _is_asked(case, options.only, release)]
        kept[path] = cases[:: options.every]
    asked = [case for cases in kept.values() for case in cases]
    answers = ask(options.engine_python, asked)
    if options.out is not None:
        write(options.out, kept, answers)
    found = [changes(case, answer) for case, answer in zip(asked, answers, strict=True)]
    print(summary(release, found))
    return 1 if any(case.lines or case.unanswered for case in found) or not found else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--engine-python", required=True, metavar="PATH")
    parser.add_argument("--only", default="", help="ask cases whose name or kind holds this")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every Nth case")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the answers are written")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def _is_asked(case: Case, only: str, release: str) -> bool:
    """Whether a case is wanted; those of a release's own rule are put to that release alone."""
    kind = kind_of(case)
    return only in f"{kind} {case['name']}" and _RELEASES.get(kind, release) == release


def request(case: Case) -> dict[str, Any]:
    """A case without its answers, in the engine's order of layers."""
    kind = kind_of(case)
    asked: dict[str, Any] = dict(case)
    if kind in ("models", "runner"):
        asked = {key: case[key] for key in MODEL_INPUTS if key in case}
        if "results" in case:
            memories = [result["available_memory"] for result in case["results"]]
            asked["results"] = [{"available_memory": memory} for memory in memories]
    elif "workers" in case:
        asked["workers"] = [_registered(worker) for worker in case["workers"]]
    else:
        asked["layers"] = _registered(case["layers"])
    return {"kind": kind, "case": asked}


def _registered(layers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: layers[name] for name in sorted(layers, key=registration_order)}


def ask(engine_python: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The engine's answer to each case, or why there is none; a process for each card."""
    by_card: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        card = case.get("gpu", PLANNER_CARD)
        by_card.setdefault(json.dumps(card, sort_keys=True), []).append(index)
    answers: list[dict[str, Any]] = [{} for _ in cases]
    for card, indexes in by_card.items():
        print(f"{json.loads(card)['name']}: {len(indexes)} cases", file=sys.stderr)
        made = _ask(engine_python, card, [request(cases[index]) for index in indexes])
        for index, answer in zip(indexes, made, strict=True):
            answers[index] = answer
    return answers


def _ask(engine_python: str, card: str, requests: Iterable[Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "cases"), Path(folder, "answers")
        source.write_text("".join(f"{json.dumps(line)}\n" for line in requests), encoding="utf-8")
        module = "tests.conformance.engine.answer"
        _run(engine_python, "-m", module, card, str(source), str(target))
        return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def _run(*command: str) -> str:
    """stdout of a process that ended well; its stderr goes to ours."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def write(
    folder: Path, kept: Mapping[Path, Sequence[Case]], answers: Sequence[Mapping[str, Any]]
) -> None:
    """The answers under the kept files' names; a case without an answer is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    rest = iter(answers)
    for path, cases in kept.items():
        made = [next(rest) for _ in cases]
        lines = [json.dumps(a["answer"], sort_keys=True) for a in made if "answer" in a]
        if lines:
            opened = lzma.open if path.suffix == ".xz" else open
            with opened(folder / path.name, "wt", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
