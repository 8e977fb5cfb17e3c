"""Cases of the planner alone: specs, settings and memory in, groups and blocks out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvplan_cli.grouping.group import Refusal
from kvplan_cli.grouping.settings import (
    PlannerSettings,
    SpeculativeSettings,
    max_concurrent_batches,
)
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.planner.plan import plan, worker_memories
from kvplan_cli.planner.results import Plan, WorkerPlan
from kvplan_cli.planner.sizing import blocks_per_request
from kvplan_cli.specs import KVCacheSpec, MambaCacheMode
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs
from kvplan_cli.specs.codec import spec_from_mapping
from tests.conformance.compare import differences, groups_mapping, only, tensor_mapping

Layers = Mapping[str, KVCacheSpec]

# Named so that a new key of the vectors is noticed: these say nothing of blocks or bytes.
NOT_PLANNED = frozenset(
    {
        "available_memory",
        "enable_prefix_caching",
        "cache_hit_alignment_tokens",
        "has_mamba_layers",
        "needs_kv_cache_zeroing",
        "estimated_max_model_len",
        "per_worker_error",
    }
)
DEFAULT_LAYOUTS = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")


def layers_from(mapping: Mapping[str, Mapping[str, Any]]) -> dict[str, KVCacheSpec]:
    """Layer name to spec, equal specs as one object."""
    known: dict[str, KVCacheSpec] = {}
    layers = {}
    for name, fields in sorted(mapping.items(), key=lambda item: registration_order(item[0])):
        key = repr(sorted(fields.items()))
        if key not in known:
            known[key] = spec_from_mapping(fields)
        layers[name] = known[key]
    return layers


# The engine's order where numbers do not decide: a drafter and a hidden-state cache register
# behind the model; a layer's indexer and cross attention before its own attention.
_PREFIXES = ("model", "draft", "cache_only")
_SUFFIXES = ("indexer", "cross", "attn")


def registration_order(name: str) -> tuple[int, int, int]:
    """Sort key that restores the order of registration.

    The vectors' keys were sorted as text when they were packed (layer 10 before layer 2).
    """
    prefix, _, rest = name.partition(".")
    number = re.search(r"\d+", rest)
    return (
        _PREFIXES.index(prefix),
        int(number.group()) if number else 0,
        _SUFFIXES.index(rest.rsplit(".", 1)[-1]) if rest else 0,
    )


def settings_from(config: Mapping[str, Any]) -> PlannerSettings:
    """The planner's settings of a case's ``config``."""
    speculative = config.get("speculative")
    return PlannerSettings(
        max_model_len=config["max_model_len"],
        auto_fit=config.get("original_max_model_len") == -1,
        block_size=config.get("block_size", 16),
        tensor_parallel_size=config.get("tp", 1),
        decode_context_parallel_size=config.get("dcp", 1),
        max_num_batched_tokens=config["max_num_batched_tokens"],
        max_concurrent_batches=max_concurrent_batches(
            pipeline_parallel_size=config.get("pp", 1),
            async_scheduling=config.get("async_scheduling", True),
        ),
        max_num_encoder_input_tokens=config.get(
            "max_num_encoder_input_tokens", config["max_num_batched_tokens"]
        ),
        num_gpu_blocks_override=config.get("num_gpu_blocks_override"),
        disable_hybrid_kv_cache_manager=config.get("disable_hybrid_kv_cache_manager", False),
        supported_layouts=tuple(
            KVCacheLayout(name) for name in config.get("supported_layouts") or DEFAULT_LAYOUTS
        ),
        requested_layout=config.get("layout"),
        enable_prefix_caching=config.get("enable_prefix_caching", True),
        mamba_cache_mode=MambaCacheMode(config.get("mamba_cache_mode", "none")),
        speculative=None
        if speculative is None
        else SpeculativeSettings(
            method=speculative["method"],
            num_speculative_tokens=speculative["num_speculative_tokens"],
            num_draft_modules=speculative.get("num_nextn_predict_layers"),
        ),
    )


def run_plan_case(case: Mapping[str, Any]) -> list[str]:
    """Every difference of one case, over all its memories."""
    workers = [layers_from(worker) for worker in case["workers"]]
    settings = settings_from(case["config"])
    lines = []
    for index, expected in enumerate(case["results"]):
        outcome = plan(workers, case["available_memory"][index], settings)
        lines.extend(outcome_differences(expected, outcome, workers, settings, f"results[{index}]"))
    return lines


def outcome_differences(
    expected: Mapping[str, Any],
    outcome: Plan | Refusal,
    workers: Sequence[Layers],
    settings: PlannerSettings,
    path: str,
) -> list[str]:
    """Differences of one situation."""
    actual: dict[str, Any] = {
        "layout": None if outcome.layout is None else outcome.layout.value,
        "max_model_len": outcome.max_model_len
        if isinstance(outcome, Plan)
        else settings.max_model_len,
        "max_in_flight_tokens": settings.max_in_flight_tokens,
        "max_concurrent_batches": settings.max_concurrent_batches,
        "num_prefill_lookahead_tokens": settings.num_prefill_lookahead_tokens,
    }
    if "global_groups" in expected:
        actual["global_groups"] = groups_mapping(outcome.groups, expected["global_groups"])
    if "per_worker" in expected:
        actual["per_worker"] = per_worker(outcome, workers, settings)
    if isinstance(outcome, Refusal):
        actual["error"] = {"type": outcome.error_type, "message": outcome.message}
    else:
        actual |= _plan_mapping(outcome, expected, settings)
    warnings = [warning.message for warning in outcome.warnings]
    wanted = {key: value for key, value in expected.items() if key not in NOT_PLANNED}
    if "log" in wanted:
        wanted["log"] = [
            line.split(": ", 1)[1] for line in wanted["log"] if line.startswith("WARNING")
        ]
        actual["log"] = warnings
    wanted["per_worker"] = [
        {key: value for key, value in worker.items() if key not in NOT_PLANNED}
        for worker in wanted.get("per_worker", [])
    ]
    actual.setdefault("per_worker", [])
    if "workers" in wanted:
        wanted["workers"] = [
            {key: value for key, value in worker.items() if key not in NOT_PLANNED}
            for worker in wanted["workers"]
        ]
    return differences(wanted, actual, path)


def per_worker(
    outcome: Plan | Refusal, workers: Sequence[Layers], settings: PlannerSettings
) -> list[dict[str, Any]]:
    """Each worker's figures that do not hang on its memory."""
    assert outcome.layout is not None
    length = outcome.max_model_len if isinstance(outcome, Plan) else None
    max_model_len = settings.max_model_len if length is None else length
    rows = []
    memories = worker_memories(
        workers, [0] * len(workers), settings, outcome.layout, outcome.groups
    )
    for memory in memories:
        blocks = [
            None
            if not group.layer_names and isinstance(group.spec, UniformTypeKVCacheSpecs)
            else blocks_per_request(group, max_model_len, settings.request_limits)
            for group in memory.groups
            if not group.host_resident
        ]
        rows.append(
            {
                "bytes_per_block": memory.bytes_per_block or None,
                "max_memory_usage_bytes": memory.need_bytes(max_model_len, settings),
                "blocks_per_request_by_group": blocks,
            }
        )
    return rows


def _plan_mapping(
    outcome: Plan, expected: Mapping[str, Any], settings: PlannerSettings
) -> dict[str, Any]:
    wanted = expected.get("workers", [])
    only(
        (key for worker in wanted for key in worker),
        (
            "num_blocks",
            "groups",
            "kv_cache_tensors",
            "kv_tp_replicas",
            "total_kv_bytes",
            "kv_cache_layout",
            "hash_block_size",
        ),
        NOT_PLANNED,
        "a worker",
    )
    return {
        "num_blocks": outcome.num_blocks,
        "kv_tp_replicas": outcome.kv_tp_replicas,
        "kv_cache_size_tokens": outcome.kv_cache_size_tokens,
        "kv_cache_max_concurrency": outcome.max_concurrency,
        "cache_config_block_size": outcome.block_size,
        "scheduler_block_size": outcome.scheduler_block_size,
        "hash_block_size": outcome.hash_block_size,
        "workers": [
            _worker_mapping(outcome, worker, wanted[i] if i < len(wanted) else {})
            for i, worker in enumerate(outcome.workers)
        ],
    }


def _worker_mapping(
    outcome: Plan, worker: WorkerPlan, expected: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "num_blocks": worker.num_blocks,
        "kv_tp_replicas": worker.kv_tp_replicas,
        "kv_cache_layout": outcome.layout.value,
        "hash_block_size": outcome.hash_block_size,
        "groups": groups_mapping(worker.groups, expected.get("groups", [])),
        "kv_cache_tensors": [tensor_mapping(tensor) for tensor in worker.kv_cache_tensors],
        "total_kv_bytes": worker.allocated_bytes if worker.kv_cache_tensors else 0,
    }
