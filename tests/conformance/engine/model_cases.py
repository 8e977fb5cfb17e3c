"""Whole models: a config and flags in, the engine's start-up figures out, as kept."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import vllm

from tests.conformance.engine.configs import engine_config
from tests.conformance.engine.construction import SHARED, report
from tests.conformance.engine.encoding import runs, spec_json, without_derived
from tests.conformance.engine.forking import forked
from tests.conformance.engine.log_lines import LOG
from tests.conformance.engine.startup import start

Case = Mapping[str, Any]
# Memories for a case that the kept release refused, so that another has something to plan with.
MEMORY_WITHOUT_RESULTS = (8 << 30, 64 << 30)
_ECHOED = ("name", "env", "config", "engine_args", "extra_files", "gpu")
_RESULT = (
    "available_memory",
    "error",
    "layout",
    "max_model_len",
    "max_in_flight_tokens",
    "max_concurrent_batches",
    "num_prefill_lookahead_tokens",
    "per_worker",
    "num_blocks",
    "kv_tp_replicas",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "scheduler_block_size",
    "hash_block_size",
    "scheduler_block_size_error",
)
_TOLD = ("block size", "mamba", "Mamba", "max model len", "cache dtype", "kv cache", "KV cache")


def answer(case: Case) -> dict[str, Any]:
    """The case with the engine's figures, or its refusal."""
    echo = {key: case[key] for key in _ECHOED if key in case} | {"vllm": vllm.__version__}
    LOG.restart()
    try:
        vllm_config = engine_config(
            case["config"], case["engine_args"], case.get("extra_files") or {}
        )
    except Exception as error:
        words = {"type": type(error).__name__, "message": str(error)}
        return echo | {"refused": {"stage": "config_error", **words}}
    told = [line for line in LOG.lines if any(word in line for word in _TOLD)]
    resolved = summary(vllm_config)
    reports: list[dict[str, Any]] = []
    for stage in range(vllm_config.parallel_config.pipeline_parallel_size):
        kind, *result = _report(case, stage)
        if kind != "ok":
            refused = {"stage": "model_error", "pp_rank": stage, "message": result[0]}
            return echo | {"refused": refused}
        reports.append(result[0])
    specs = [made["specs"] for made in reports]
    _share(vllm_config, reports)
    results = [
        start(copy.deepcopy(vllm_config), specs, [made["layouts"] for made in reports], memory)
        for memory in memories(case, len(specs))
    ]
    figures = _figures(reports, results)
    return {**echo, "source": case.get("source"), "resolved": resolved, **figures} | {
        "config_log": told
    }


def memories(case: Case, workers: int) -> Sequence[Sequence[int]]:
    """The memories the case was kept with, one value a worker."""
    if "results" in case:
        return [result["available_memory"] for result in case["results"]]
    return [[size] * workers for size in MEMORY_WITHOUT_RESULTS]


def _report(case: Case, stage: int) -> tuple[Any, ...]:
    result = forked(_reported, case, stage, False)
    reads_back = ("meta tensor", "meta device", "on meta", "Meta", "register_meta")
    if result[0] != "ok" and any(words in result[1] for words in reads_back):
        second = forked(_reported, case, stage, True)
        return second if second[0] == "ok" else result
    return result


def _reported(case: Case, stage: int, values: bool) -> dict[str, Any]:
    LOG.restart()
    return report(case, stage, values=values)


def _share(vllm_config: Any, reports: Sequence[Mapping[str, Any]]) -> None:
    """A lone worker shares its settings with the engine core."""
    sizes = vllm_config.parallel_config
    if sizes.pipeline_parallel_size == sizes.tensor_parallel_size == 1:
        for name in SHARED:
            if hasattr(vllm_config.cache_config, name):
                setattr(vllm_config.cache_config, name, reports[0]["cache_config"][name])


def _figures(
    reports: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    groups: list[Any] = next((r["global_groups"] for r in results if "global_groups" in r), [])
    return _weights(reports) | {
        "per_worker_layers": [
            runs({name: spec_json(spec) for name, spec in made["specs"].items()})
            for made in reports
        ],
        "supported_layouts": [made["layouts"] for made in reports],
        "backends": [made["backends"] for made in reports],
        "kv_shared_layers": [made["kv_shared_layers"] for made in reports],
        "block_size": reports[0]["cache_config"]["block_size"],
        "global_groups": [_kept_group(group) for group in groups],
        "results": [_kept_result(result, groups) for result in results],
    }


def _weights(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes of each stage; nothing for a model of which a part was stood in for."""
    if any(made["weights"] is None for made in reports):
        return {}
    figures: dict[str, Any] = {
        "weights_bytes": [made["weights"]["total_bytes"] for made in reports],
        "weights_by_dtype": [made["weights"]["by_dtype"] for made in reports],
    }
    drafter = reports[-1].get("drafter_weights")
    if drafter is not None:
        figures["drafter_weights_bytes"] = drafter["total_bytes"]
    if "lora_bytes" in reports[0]:
        figures["lora_bytes"] = [made["lora_bytes"] for made in reports]
    return figures


def _kept_group(group: Mapping[str, Any]) -> dict[str, Any]:
    spec = without_derived(group["spec"])
    if "kv_cache_specs" in spec:
        spec["kv_cache_specs"] = runs(group["spec"]["kv_cache_specs"])
    return {key: value for key, value in group.items() if key != "role"} | {"spec": spec}


def _kept_result(result: Mapping[str, Any], groups: Sequence[Any]) -> dict[str, Any]:
    kept = {key: result[key] for key in _RESULT if key in result}
    if result.get("global_groups", groups) != groups:
        kept["global_groups"] = [_kept_group(group) for group in result["global_groups"]]
    workers = result.get("workers", [])
    kept["worker_num_blocks"] = [worker["num_blocks"] for worker in workers]
    kept["total_kv_bytes"] = [worker["total_kv_bytes"] for worker in workers]
    kept["warnings"] = [
        line
        for line in result["log"]
        if line.startswith("WARN") or "Overriding" in line or "Auto-fit" in line
    ]
    return kept


def summary(vllm_config: Any) -> dict[str, Any]:
    """The settings as the engine resolved them, before any worker speaks."""
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    speculative, attention = vllm_config.speculative_config, vllm_config.attention_config
    shown: dict[str, Any] = {
        "dtype": str(model.dtype),
        "tp": parallel.tensor_parallel_size,
        "pp": parallel.pipeline_parallel_size,
        "dcp": parallel.decode_context_parallel_size,
        "pcp": parallel.prefill_context_parallel_size,
        "ep": parallel.enable_expert_parallel,
        "executor": str(parallel.distributed_executor_backend),
        "speculative_method": speculative.method if speculative else None,
        "attention_backend": str(attention.backend) if attention else None,
        "cudagraph_mode": str(vllm_config.compilation_config.cudagraph_mode),
    }
    for part, names in _SUMMARY.items():
        source = getattr(vllm_config, part) if part else vllm_config
        shown |= {name: getattr(source, name, None) for name in names}
    return shown


_SUMMARY = {
    "model_config": (
        "max_model_len",
        "original_max_model_len",
        "quantization",
        "architecture",
        "is_hybrid",
        "use_mla",
        "runner_type",
        "is_encoder_decoder",
    ),
    "scheduler_config": (
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_num_encoder_input_tokens",
        "async_scheduling",
        "enable_chunked_prefill",
        "disable_hybrid_kv_cache_manager",
    ),
    "cache_config": (
        "block_size",
        "cache_dtype",
        "enable_prefix_caching",
        "mamba_cache_mode",
        "mamba_block_size",
        "gpu_memory_utilization",
        "num_gpu_blocks_override",
    ),
    "": (
        "use_v2_model_runner",
        "max_concurrent_batches",
        "max_in_flight_tokens",
        "num_speculative_tokens",
        "num_prefill_lookahead_tokens",
    ),
}
