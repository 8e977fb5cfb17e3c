"""The sharing rules for modules' names, held against checkpoints of real architectures.

Run it: ``python -m tests.memory.checkpoint_names`` prints, for each architecture, how far the
rules alone are from the weights that the engine built, and the modules that no rule names.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import MissingFieldError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.memory.weights.count import (
    beside_checkpoint,
    ends_of,
    rank_site,
    rank_stages,
    rank_tensors,
    tower_share,
)
from kvplan_cli.memory.weights.stored import StoredModel, StoredTensor, experts_in
from kvplan_cli.resolution import resolve
from kvplan_cli.values import dataclass
from tests.conformance.model_cases import engine_args_of, gpu_of
from tests.memory.vector_weights import answered_cases

_NAMES: Final = Path(__file__).parent.parent / "data" / "memory" / "checkpoint_names.jsonl.xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the rules make of a checkpoint. parts: of what the engine built, on each stage."""

    architecture: str
    parts: tuple[float, ...]
    unknown: tuple[str, ...]

    @property
    def error(self) -> float:
        return max(abs(part - 1) for part in self.parts)


def checkpoints() -> Iterator[Mapping[str, Any]]:
    """The table's rows: a vector's name and file, and its tensors by pattern."""
    with lzma.open(_NAMES, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


@cache
def told() -> tuple[Told, ...]:
    """Every checkpoint of the table whose config can be resolved here."""
    rows = list(checkpoints())
    found = []
    for name in sorted({row["file"] for row in rows}):
        wanted = {row["case"]: row for row in rows if row["file"] == name}
        for case in answered_cases(name):
            row = wanted.pop(case["name"], None)
            if row is not None:
                found.append(_told(case, row))
    return tuple(sorted(found, key=lambda each: each.architecture))


def _told(case: Mapping[str, Any], row: Mapping[str, Any]) -> Told:
    values = case["config"]
    try:
        return _of_values(case, row, values)
    except MissingFieldError:
        return _of_values(case, row, with_class_defaults(values)[0])


def _of_values(case: Mapping[str, Any], row: Mapping[str, Any], values: Mapping[str, Any]) -> Told:
    config, args, gpu = HfConfig(values), engine_args_of(case), gpu_of(case)
    model = resolve(config, case["extra_files"], args, gpu)
    shape, settings = model.shape, model.settings
    tensors = tuple(_tensors(row, settings.dtype.itemsize))
    stored = StoredModel(
        tensors=tensors,
        num_kv_heads=max((layer.num_kv_heads for layer in shape.attention_layers), default=1),
        num_experts=experts_in(tensors),
        tower_share=tower_share(config, settings, args),
        ends=ends_of(config, settings),
    )
    held = stored.stages(rank_site(settings, args), rank_stages(shape, settings, args))
    try:
        built = rank_tensors(config, shape, settings, args, case["extra_files"], gpu.capability)
        beside = [beside_checkpoint(stage) for stage in built]
    except UnplannableError:
        beside = [0] * len(held)
    pairs = zip(held, beside, case["weights_bytes"], strict=True)
    return Told(
        architecture=row["architecture"],
        parts=tuple((stage.size_bytes + own) / engine for stage, own, engine in pairs),
        unknown=tuple(sorted(set(chain.from_iterable(stage.unknown for stage in held)))),
    )


def _tensors(row: Mapping[str, Any], itemsize: int) -> Iterator[StoredTensor]:
    dtype = "BF16" if itemsize == 2 else "F32"
    for pattern, shape, numbers in row["tensors"]:
        for filled in numbers or [[]]:
            yield StoredTensor(
                name=pattern.format(*filled),
                dtype=dtype,
                shape=tuple(shape),
                size_bytes=prod(shape) * itemsize,
            )


def main() -> int:
    """Print the table, the furthest last."""
    for each in sorted(told(), key=lambda one: one.error):
        print(f"{each.architecture:50} {each.error:8.3%}  {', '.join(each.unknown)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
