"""The planner alone: bare specs, settings and memory in, the engine's answers out, as kept."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import vllm
from vllm.v1.core import kv_cache_utils as utils
from vllm.v1.kv_cache_layout import KVCacheLayout

from tests.conformance.engine.configs import planner_config, speculative_config
from tests.conformance.engine.encoding import group_json, layers_of, tensor_json
from tests.conformance.engine.log_lines import LOG
from tests.conformance.engine.startup import PLANNING, block_bytes, call, start

Case = Mapping[str, Any]
LAYOUTS = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")


def plan_answer(case: Case) -> dict[str, Any]:
    """A start-up for each memory."""
    workers = [layers_of(worker) for worker in case["workers"]]
    layouts = [list(case["config"].get("supported_layouts") or LAYOUTS)] * len(workers)
    results = [
        start(planner_config(case["config"]), workers, layouts, memory)
        for memory in case["available_memory"]
    ]
    return {**case, "results": results}


def spec_level_answer(case: Case) -> dict[str, Any]:
    """The engine's functions on layers without groups."""
    layers, config = layers_of(case["layers"]), planner_config(case["config"])
    available = case["available_memory"]
    return {
        **case,
        "max_memory_usage_bytes": PLANNING.max_memory_usage_bytes(config, layers.values()),
        "estimate_max_model_len": PLANNING.estimate_max_model_len(config, layers, available),
        "is_kv_cache_spec_uniform": PLANNING.is_kv_cache_spec_uniform(layers),
        "check_enough_kv_cache_memory": _refusal(
            PLANNING.check_enough_kv_cache_memory, config, layers, available
        ),
    }


def _refusal(function: Any, *args: Any) -> dict[str, str] | None:
    try:
        function(*args)
    except Exception as error:
        return {"type": type(error).__name__, "message": str(error)}
    return None


def hisparse_answer(case: Case) -> dict[str, Any]:
    """Host-backed sparse MLA: groups, both pools and what they hold."""
    from vllm.v1.hisparse.layout import get_hisparse_steady_state_concurrency

    layers, config = layers_of(case["layers"]), _hisparse_config(case)
    inputs = ("name", "layers", "config", "available_memory", "host_pool_gib")
    shown = {key: case[key] for key in (*inputs, "device_buffer_size")}
    groups = PLANNING.get_kv_cache_groups(config, layers)
    shown["groups"] = [
        group_json(group) | {"enable_kv_transfer": group.enable_kv_transfer} for group in groups
    ]
    try:
        blocks = case["available_memory"] // block_bytes(config, groups)
        memory = blocks * block_bytes(config, groups)
        plan = PLANNING.get_kv_cache_config_from_groups(config, groups, memory)
    except Exception as error:
        return shown | {"error": {"type": type(error).__name__, "message": str(error)}}
    return shown | {
        "num_blocks": plan.num_blocks,
        "host_num_blocks": plan.hisparse_host_num_blocks,
        "host_block_stride": plan.hisparse_host_block_stride,
        "tensors": [tensor_json(tensor) for tensor in plan.kv_cache_tensors],
        "max_concurrency": utils.get_max_concurrency_for_kv_cache_config(config, plan),
        "steady_state_concurrency": get_hisparse_steady_state_concurrency(config, plan),
        "max_memory_usage_bytes": call(
            PLANNING._max_memory_usage_bytes_from_groups, config, groups
        ),
        "estimated_max_model_len": call(
            PLANNING._estimate_max_model_len_from_groups, config, groups, case["available_memory"]
        ),
    }


def _hisparse_config(case: Case) -> Any:
    from vllm.config.attention import HiSparseConfig

    config = planner_config(case["config"])
    size = case["device_buffer_size"]
    hisparse = HiSparseConfig() if size is None else HiSparseConfig(device_buffer_size=size)
    config.attention_config.hisparse_config = hisparse
    config.kv_transfer_config = SimpleNamespace(
        kv_connector="HiSparseConnector",
        kv_connector_extra_config={"host_pool_gib": case["host_pool_gib"]},
    )
    # Where the layers do not carry their top-k, the model's config does.
    widths = [layer.get("topk_buffer_width") or 0 for layer in case["layers"].values()]
    config.model_config.hf_config.index_topk = max(widths)
    # The host pool is each rank's own.
    config.parallel_config.distributed_executor_backend = None
    return config


def drafter_answer(case: Case) -> dict[str, Any]:
    """Groups, and which of them the engine marks as a drafter's."""
    given = case["config"]
    layers = {name: spec for worker in case["workers"] for name, spec in layers_of(worker).items()}
    drafter = given.get("speculative")
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=given["max_model_len"],
            hf_config=SimpleNamespace(model_type=given.get("model_type", "llama")),
        ),
        cache_config=SimpleNamespace(
            get_resolved_kv_cache_layout=lambda: KVCacheLayout[given["layout"]]
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=given["disable_hybrid_kv_cache_manager"]
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None if drafter is None else speculative_config(drafter),
    )
    LOG.restart()
    shown = {key: case[key] for key in ("name", "workers", "config")}
    try:
        groups = PLANNING.get_kv_cache_groups(config, layers)
    except Exception as error:
        return shown | {"error": {"type": type(error).__name__, "message": str(error)}}
    return shown | {
        "release": vllm.__version__,
        "groups": [
            {"layer_names": list(g.layer_names), "is_eagle_group": g.is_eagle_group} for g in groups
        ],
        "warnings": [line.split(": ", 1)[1] for line in LOG.lines if line.startswith("WARNING")],
    }
