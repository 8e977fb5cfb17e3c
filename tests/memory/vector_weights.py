"""Counted weights against those that the engine built for each vector.

Run it: ``python -m tests.memory.vector_weights`` prints, for each architecture and each class of
drafters, how many cases are equal to the byte, near (3 %), far, or not described.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import MissingFieldError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.loader.draft_model import DRAFT_PLACE, completed_draft
from kvplan_cli.memory.weights.count import rank_tensors
from kvplan_cli.memory.weights.drafters.count import DraftTarget, count_drafter
from kvplan_cli.memory.weights.tensors import total_bytes
from kvplan_cli.resolution import resolve
from kvplan_cli.service.draft_weights import backend_names
from tests.conformance.model_cases import config_of, engine_args_of, gpu_of

VECTORS: Final = Path(__file__).parent.parent / "data" / "vectors"
# What a drafter shares with its target changes the target's figure as well: these cases are held
# for their drafters alone.
SHARED: Final = ("drafter_models", "more_drafters")
DRAFTERS: Final = ("models", "formats", "wrappers_1", "wrappers_2", *SHARED)
NEAR: Final = 0.03


def model_files() -> tuple[str, ...]:
    """The vector files of whole models, by name."""
    found = []
    for path in sorted(VECTORS.glob("*.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            first = json.loads(next(stream))
        name = path.name.removesuffix(".jsonl.xz")
        if "engine_args" in first and name not in SHARED:
            found.append(name)
    return tuple(found)


def answered_cases(name: str = "models") -> Iterator[Mapping[str, Any]]:
    """The cases in which the engine built the model, in the file's order."""
    with lzma.open(VECTORS / f"{name}.jsonl.xz", "rt", encoding="utf-8") as stream:
        for line in stream:
            case = json.loads(line)
            if "refused" not in case and case.get("weights_bytes"):
                yield case


def drafter_cases(name: str) -> Iterator[Mapping[str, Any]]:
    """The cases in which the engine built a drafter beside the model."""
    return (case for case in answered_cases(name) if case.get("drafter_weights_bytes"))


Count = Callable[[Mapping[str, Any], EngineArgs, Mapping[str, Any]], list[int]]


def counted(case: Mapping[str, Any]) -> list[int]:
    """Bytes of the model on a rank of each stage, without its drafter's."""
    args = engine_args_of(case)
    config = args.speculative_config
    if config is not None and config.get("method") != "ngram":
        args = replace(args, speculative_config=None)
    return completed(_of_model, case, args)


def counted_drafter(case: Mapping[str, Any]) -> list[int]:
    """Bytes of the drafter alone, which has no checkpoint in the vectors: what it may share with
    its target, it shares."""
    return completed(_of_drafter, case, engine_args_of(case))


def completed(count: Count, case: Mapping[str, Any], args: EngineArgs) -> list[int]:
    """The count, with class defaults beneath the configs that lack a field."""
    values: Mapping[str, Any] = config_of(case)
    for _ in range(2):
        try:
            return count(case, args, values)
        except MissingFieldError as missing:
            if missing.origin == DRAFT_PLACE:
                args = completed_draft(args)
            else:
                values = with_class_defaults(values)[0]
    return count(case, args, values)


def _of_model(case: Mapping[str, Any], args: EngineArgs, values: Mapping[str, Any]) -> list[int]:
    config, gpu = HfConfig(values), gpu_of(case)
    model = resolve(config, case["extra_files"], args, gpu)
    given = (config, model.shape, model.settings, args, case["extra_files"])
    stages = rank_tensors(*given, gpu.capability, backend_names(model))
    return [total_bytes(stage) for stage in stages]


def _of_drafter(case: Mapping[str, Any], args: EngineArgs, values: Mapping[str, Any]) -> list[int]:
    config, gpu = HfConfig(values), gpu_of(case)
    model = resolve(config, case["extra_files"], args, gpu)
    target = DraftTarget(
        config=config,
        shape=model.shape,
        settings=model.settings,
        args=args,
        extra_files=case["extra_files"],
        capability=gpu.capability,
        backends=backend_names(model),
    )
    count = count_drafter(target)
    assert count is not None, "the engine built a drafter"
    return [total_bytes(count.built.tensors(embedding=False, head=False))]


def verdict(count: Callable[[Mapping[str, Any]], list[int]], case: Any, wanted: list[int]) -> str:
    """``equal``, ``near``, ``far`` or ``not described``."""
    try:
        found = count(case)
    except UnplannableError:
        return "not described"
    if found == wanted:
        return "equal"
    worst = max(abs(a - b) / b for a, b in zip(found, wanted, strict=True))
    return "near" if worst <= NEAR else "far"


def main() -> int:
    """Print the table; 1 where a case is far."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for case in (case for name in model_files() for case in answered_cases(name)):
        table[case["resolved"]["architecture"]][verdict(counted, case, case["weights_bytes"])] += 1
    for case in (case for name in DRAFTERS for case in drafter_cases(name)):
        name = f"{case['resolved']['architecture']} + {case['resolved']['speculative_method']}"
        table[name][verdict(counted_drafter, case, [case["drafter_weights_bytes"]])] += 1
    whole: Counter[str] = Counter()
    for architecture, counts in sorted(table.items()):
        whole += counts
        shown = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        print(f"{architecture:60} {shown}")
    print(f"{len(table)} kinds: {dict(whole)}")
    return 1 if whole["far"] else 0


if __name__ == "__main__":
    sys.exit(main())
