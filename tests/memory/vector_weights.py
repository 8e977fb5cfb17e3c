"""Counted weights against those that the engine built for each vector.

Run it: ``python -m tests.memory.vector_weights`` prints, for each architecture, how many cases
are equal to the byte, near (3 %), far, or not described.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import MissingFieldError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.memory.weights.count import rank_tensors
from kvplan_cli.memory.weights.tensors import total_bytes
from kvplan_cli.resolution import resolve
from tests.conformance.model_cases import engine_args_of, gpu_of

VECTORS: Final = Path(__file__).parent.parent / "data" / "vectors"
FILES: Final = ("models", "more_models", "latent", "states")
NEAR: Final = 0.03


def answered_cases(name: str = "models") -> Iterator[Mapping[str, Any]]:
    """The cases in which the engine built the model, in the file's order."""
    with lzma.open(VECTORS / f"{name}.jsonl.xz", "rt", encoding="utf-8") as stream:
        for line in stream:
            case = json.loads(line)
            if "refused" not in case and case.get("weights_bytes"):
                yield case


def counted(case: Mapping[str, Any]) -> list[int]:
    """Bytes on a rank of each stage; a drafter's are not part of the vectors' figure."""
    args = engine_args_of(case)
    config = args.speculative_config
    if config is not None and config.get("method") != "ngram":
        args = replace(args, speculative_config=None)
    try:
        return _counted(case, args, case["config"])
    except MissingFieldError:
        return _counted(case, args, with_class_defaults(case["config"])[0])


def _counted(case: Mapping[str, Any], args: EngineArgs, values: Mapping[str, Any]) -> list[int]:
    config, gpu = HfConfig(values), gpu_of(case)
    model = resolve(config, case["extra_files"], args, gpu)
    stages = rank_tensors(
        config, model.shape, model.settings, args, case["extra_files"], gpu.capability
    )
    return [total_bytes(stage) for stage in stages]


def verdict(case: Mapping[str, Any]) -> str:
    """``equal``, ``near``, ``far`` or ``not described``."""
    wanted = case["weights_bytes"]
    try:
        found = counted(case)
    except UnplannableError:
        return "not described"
    if found == wanted:
        return "equal"
    worst = max(abs(a - b) / b for a, b in zip(found, wanted, strict=True))
    return "near" if worst <= NEAR else "far"


def main() -> int:
    """Print the table; 1 where a case is far."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for case in (case for name in FILES for case in answered_cases(name)):
        table[case["resolved"]["architecture"]][verdict(case)] += 1
    whole: Counter[str] = Counter()
    for architecture, counts in sorted(table.items()):
        whole += counts
        shown = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        print(f"{architecture:48} {shown}")
    print(f"{len(table)} architectures: {dict(whole)}")
    return 1 if whole["far"] else 0


if __name__ == "__main__":
    sys.exit(main())
