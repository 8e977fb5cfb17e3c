"""Predicted peaks and budgets against figures that vLLM printed in public."""

from __future__ import annotations

import statistics
from typing import Any

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.logs.releases import release_of
from kvplan_cli.memory.budget import Estimate
from kvplan_cli.memory.buffers import moe_workspace, persistent_buffers
from kvplan_cli.memory.ladder import requested_bytes
from kvplan_cli.memory.outside import cuda_graphs, outside_allocator
from kvplan_cli.memory.releases import MemoryRules, memory_rules
from kvplan_cli.memory.runner_buffers import RankState
from kvplan_cli.memory.sizes import ProfileSizes
from kvplan_cli.memory.transient import transient
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import GIB
from tests.memory.builders import settings, startups

_PRINTED = 0.005  # GiB figures have two decimals
_NEWER = ("0.26", "0.27", "0.28", "0.31")


def _sizes(point: dict[str, Any]) -> ProfileSizes:
    keys = ProfileSizes.__dataclass_fields__
    return ProfileSizes(**{key: point[key] for key in keys})


def _settings(point: dict[str, Any]) -> ResolvedSettings:
    return settings(
        tensor_parallel_size=point["tensor_parallel_size"],
        pipeline_parallel_size=point["pipeline_parallel_size"],
        max_num_batched_tokens=point["max_num_batched_tokens"],
        max_num_seqs=point["max_num_seqs"],
        quantization=point["quantization"],
        gpu_memory_utilization=point["gpu_memory_utilization"],
    )


def _newer(point: dict[str, Any]) -> bool:
    return bool(point["release"].startswith(_NEWER))


def _rules(point: dict[str, Any]) -> MemoryRules:
    return memory_rules(release_of(point["release"]))


def _peak(point: dict[str, Any]) -> Estimate:
    return transient(
        _sizes(point),
        _settings(point),
        {},
        is_last_stage=point["last_stage"],
        profiles_encoder=False,
        rules=_rules(point),
    )


def _workspace(point: dict[str, Any]) -> int:
    """0.19 printed the experts' workspace as part of the peak."""
    if _newer(point) or point["quantization"] == "gpt_oss_mxfp4":
        return 0
    return moe_workspace(_sizes(point), _settings(point))


def test_printed_peaks_lie_in_the_range() -> None:
    errors = []
    for point in startups():
        if point["activation_includes_graphs"]:
            continue
        peak, extra, printed = _peak(point), _workspace(point), point["activation_gib"]
        assert (peak.low + extra) / GIB - _PRINTED <= printed, point["id"]
        assert printed <= (peak.high + extra) / GIB + _PRINTED, point["id"]
        errors.append(abs((peak.likely + extra) / GIB - printed))
    assert len(errors) >= 24
    assert statistics.median(errors) < 0.04
    assert sorted(errors)[int(0.9 * len(errors))] < 0.25


def _available(point: dict[str, Any]) -> tuple[float, float, float]:
    resolved, sizes, peak = _settings(point), _sizes(point), _peak(point)
    total = int(point["total_gib"] * GIB)
    card = Gpu(name=point["card"], capability=(9, 0), total_memory_bytes=total)
    rules, layers = _rules(point), point["layers"] // point["pipeline_parallel_size"]
    lines = [
        peak,
        outside_allocator(card, resolved, rules),
        persistent_buffers(
            sizes, resolved, state=RankState(is_last_stage=point["last_stage"]), rules=rules
        ),
        cuda_graphs(layers, card, resolved, EngineArgs(enforce_eager=point["eager"]), rules),
    ]
    left = requested_bytes(total, point["gpu_memory_utilization"])
    left -= int(point["weights_gib"] * GIB)
    return (
        (left - sum(line.high for line in lines)) / GIB,
        (left - sum(line.likely for line in lines)) / GIB,
        (left - sum(line.low for line in lines)) / GIB,
    )


def test_printed_budgets_lie_in_the_range() -> None:
    errors, inside = [], 0
    for point in startups():
        low, likely, high = _available(point)
        printed = point["available_gib"]
        inside += low - 2 * _PRINTED <= printed <= high + 2 * _PRINTED
        errors.append(abs(likely - printed))
    assert inside == len(errors) >= 25
    assert statistics.median(errors) < 0.1
