"""Cases of host-backed sparse MLA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan_cli.grouping.group import RefusedError
from kvplan_cli.grouping.settings import HiSparseSettings
from kvplan_cli.grouping.strategy import global_groups
from kvplan_cli.planner.fitting import longest_fitting
from kvplan_cli.planner.layout_choice import resolve_layout
from kvplan_cli.planner.plan import allocated_plan, worker_memories
from kvplan_cli.planner.results import Plan
from kvplan_cli.units import GIB
from tests.conformance.compare import differences, groups_mapping, tensor_mapping
from tests.conformance.plan_cases import layers_from, settings_from

INPUTS = ("name", "layers", "config", "available_memory", "host_pool_gib", "device_buffer_size")


def run_hisparse_case(case: Mapping[str, Any]) -> list[str]:
    """Every difference of one case."""
    layers = layers_from(case["layers"])
    settings = replace(
        settings_from(case["config"]),
        hisparse=HiSparseSettings(
            host_pool_bytes=int(case["host_pool_gib"] * GIB),
            top_k=0,  # each layer says its own in these cases
            device_buffer_size=case["device_buffer_size"],
        ),
    )
    layout = resolve_layout([layers], settings)
    grouping = global_groups([layers], settings, layout)
    actual: dict[str, Any] = {"groups": groups_mapping(grouping.groups, case["groups"])}
    available = [case["available_memory"]]
    (memory,) = worker_memories([layers], available, settings, layout, grouping.groups)
    length = settings.max_model_len
    try:
        # These vectors hold the allocation itself, also where no request would be admitted.
        actual |= _plan_mapping(allocated_plan([memory], length, settings, layout, grouping))
        actual["estimated_max_model_len"] = longest_fitting(
            memory, memory.available_bytes, settings, length
        )
    except RefusedError as error:
        refusal = error.refusal
        actual["error"] = {"type": refusal.error_type, "message": refusal.message}
    return differences({k: v for k, v in case.items() if k not in INPUTS}, actual)


def _plan_mapping(outcome: Plan) -> dict[str, Any]:
    assert outcome.host_pool is not None
    return {
        "num_blocks": outcome.num_blocks,
        "host_num_blocks": outcome.host_pool.num_blocks,
        "host_block_stride": outcome.host_pool.block_stride_bytes,
        "tensors": [tensor_mapping(t) for t in outcome.workers[0].kv_cache_tensors],
        "max_concurrency": outcome.max_concurrency,
        "steady_state_concurrency": outcome.host_pool.steady_state_concurrency,
        "max_memory_usage_bytes": outcome.workers[0].request_need_bytes,
    }
