"""Counted weights beside those that vLLM printed in public start-up logs.

Run it: ``python -m tests.memory.printed_weights`` prints each figure, and why it is off where it
is; then the errors' median, 90th percentile and worst.
"""

from __future__ import annotations

import json
import statistics
from typing import Any, Final, NamedTuple

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.memory.weights.count import loaded_tensors
from kvplan_cli.memory.weights.lora import lora_tensors
from kvplan_cli.memory.weights.tensors import allocated_bytes
from kvplan_cli.models.registry import model_shape
from kvplan_cli.units import GIB
from tests.memory.builders import DATA, settings

# GiB from which a figure is off, and says why.
OFF: Final = 0.03
# Releases from 0.21 on keep the tail of every large segment.
_KEEPS_TAILS: Final = 21


class Figure(NamedTuple):
    """A printed figure and the counted one, GiB on one rank."""

    point: dict[str, Any]
    printed: float
    counted: float

    @property
    def error(self) -> float:
        return self.counted - self.printed


def _minor(release: str) -> int:
    parts = release.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


def _counted(point: dict[str, Any], config: HfConfig) -> float:
    resolved = settings(
        architecture=point["architecture"],
        tensor_parallel_size=point["tensor_parallel_size"],
        pipeline_parallel_size=point["pipeline_parallel_size"],
        enable_expert_parallel=point["enable_expert_parallel"],
        quantization=point["quantization"],
    )
    major, minor = point["capability"]
    args, shape, stage = EngineArgs(**point.get("flags", {})), model_shape(config), point["stage"]
    stages = loaded_tensors(config, shape, resolved, args, capability=(major, minor))
    tensors = stages[stage] + lora_tensors(config, shape, resolved, args)[stage]
    splits = _minor(point["release"]) < _KEEPS_TAILS
    booked = allocated_bytes(tensors, splits_large=splits)
    return float(booked + point["extra_bytes"] / point["tensor_parallel_size"]) / GIB


def figures() -> tuple[Figure, ...]:
    """Every public figure with its counted one."""
    points = json.loads((DATA / "printed_weights.json").read_text())["points"]
    return tuple(Figure(point, point["printed_gib"], _with_defaults(point)) for point in points)


def _with_defaults(point: dict[str, Any]) -> float:
    try:
        return _counted(point, HfConfig(point["config"]))
    except MissingFieldError:
        config, _ = with_class_defaults(point["config"])
        return _counted(point, HfConfig(config))


def summary(errors: list[float]) -> tuple[float, float, float]:
    """Median, 90th percentile and worst, without signs."""
    ordered = sorted(abs(error) for error in errors)
    return statistics.median(ordered), ordered[int(0.9 * len(ordered))], ordered[-1]


def main() -> None:
    found = figures()
    for figure in found:
        point = figure.point
        why = f"  {point['why']}" if "why" in point else ""
        print(
            f"{point['id']:5} {point['release'][:12]:12} {point['model'][:40]:40} "
            f"tp{point['tensor_parallel_size']} printed {figure.printed:8.3f} "
            f"counted {figure.counted:8.3f} error {figure.error:+.3f}{why}"
        )
    median, ninety, worst = summary([figure.error for figure in found])
    print(f"{len(found)} figures: median {median:.4f} GiB, p90 {ninety:.4f}, worst {worst:.3f}")


if __name__ == "__main__":
    main()
