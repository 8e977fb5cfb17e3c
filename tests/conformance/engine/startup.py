"""The engine's start-up with given specs and memory: its own code decides, and is recorded.

Release 0.33 keeps its planner in ``v1/core/kv_cache_planning.py`` and groups before it looks at
memory; up to 0.32 it stands in ``v1/core/kv_cache_utils.py`` and groups on the way.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import vllm.v1.engine.core as core
from vllm.config import set_current_vllm_config
from vllm.v1 import kv_cache_interface as interface
from vllm.v1.core import kv_cache_utils as utils

from tests.conformance.engine.encoding import group_json, tensor_json
from tests.conformance.engine.log_lines import LOG

PLANNING: Any
try:
    from vllm.v1.core import kv_cache_planning
except ImportError:
    PLANNING = utils
else:
    PLANNING = kv_cache_planning

Specs = Sequence[Mapping[str, Any]]


class _Executor:
    """Reports specs, layouts and memory to the engine's core."""

    def __init__(self, specs: Specs, layouts: Sequence[Any], memory: Sequence[int]) -> None:
        self.specs, self.layouts, self.memory = specs, layouts, memory

    def get_kv_cache_specs(self) -> Any:
        return copy.deepcopy(self.specs)

    def get_supported_kv_cache_layouts(self) -> Any:
        return self.layouts

    def determine_available_memory(self) -> list[int]:
        return list(self.memory)

    def set_kv_cache_layout(self, *given: Any) -> None: ...

    def initialize_from_config(self, configs: Any) -> None: ...

    def compile_or_warm_up_model(self) -> None: ...

    def get_simple_cpu_offload_num_blocks(self) -> None: ...


@contextmanager
def _recorded(seen: dict[str, Any], key: str, module: ModuleType, name: str) -> Iterator[None]:
    """Keep what one of the engine's functions returns; of nested calls the outermost."""
    real = getattr(module, name)

    def recording(*args: Any, **kwargs: Any) -> Any:
        seen[key] = real(*args, **kwargs)
        return seen[key]

    setattr(module, name, recording)
    try:
        yield
    finally:
        setattr(module, name, real)


def start(vllm_config: Any, specs: Specs, layouts: Sequence[Any], memory: Sequence[int]) -> Any:
    """One start-up. vllm_config is changed by it, as in the engine.

    layouts, memory: one a worker.
    """
    LOG.restart()
    seen: dict[str, Any] = {}
    answer: dict[str, Any] = {"available_memory": list(memory)}
    engine = SimpleNamespace(
        model_executor=_Executor(specs, layouts, memory),
        available_gpu_memory_for_kv_cache=-1,
        collective_rpc=lambda *args, **kwargs: None,
    )
    early = hasattr(core, "get_global_kv_cache_groups")
    where = (core, "get_global_kv_cache_groups") if early else (PLANNING, "get_kv_cache_groups")
    scheduler_view = None
    with (
        _recorded(seen, "groups", *where),
        _recorded(seen, "configs", core, "get_kv_cache_configs"),
        set_current_vllm_config(vllm_config),
    ):
        try:
            scheduler_view = core.EngineCore._initialize_kv_caches(engine, vllm_config)
        except Exception as error:
            answer["error"] = {"type": type(error).__name__, "message": str(error)}
    answer |= _settled(vllm_config)
    if "groups" in seen:
        answer["global_groups"] = [group_json(group) for group in seen["groups"]]
        answer["per_worker"] = [per_worker(vllm_config, seen["groups"], s) for s in specs]
    if seen.get("configs"):
        answer |= _configs(seen["configs"])
    if scheduler_view is not None:
        answer |= _reported(vllm_config, scheduler_view)
    answer["log"] = [line for line in LOG.lines if ": init engine" not in line]
    return answer


def _settled(vllm_config: Any) -> dict[str, Any]:
    return {
        "layout": vllm_config.cache_config.kv_cache_layout,
        "max_model_len": vllm_config.model_config.max_model_len,
        "max_in_flight_tokens": vllm_config.max_in_flight_tokens,
        "max_concurrent_batches": vllm_config.max_concurrent_batches,
        "num_prefill_lookahead_tokens": vllm_config.num_prefill_lookahead_tokens,
    }


def call(function: Any, vllm_config: Any, *args: Any) -> Any:
    """Call a planner function of any release: newer ones take a builder first."""
    if "builder" in inspect.signature(function).parameters:
        from vllm.v1.core.kv_cache_config_builder import get_kv_cache_config_builder

        return function(get_kv_cache_config_builder(vllm_config), vllm_config, *args)
    return function(vllm_config, *args)


def block_bytes(vllm_config: Any, groups: Any) -> Any:
    """Bytes of one block on a worker."""
    newer = getattr(PLANNING, "_pool_bytes_per_block_from_builder", None)
    return call(newer or PLANNING._pool_bytes_per_block, vllm_config, groups)


def per_worker(vllm_config: Any, groups: Any, specs: Mapping[str, Any]) -> dict[str, Any]:
    """A worker's figures that do not hang on its memory."""
    own = PLANNING._project_kv_cache_groups_to_worker(groups, specs)
    need = call(PLANNING._max_memory_usage_bytes_from_groups, vllm_config, own) if own else 0
    longest = None
    if not own:
        longest = call(PLANNING._estimate_max_model_len_from_groups, vllm_config, own, 0)
    return {
        "bytes_per_block": block_bytes(vllm_config, own) if own else None,
        "max_memory_usage_bytes": need,
        "estimated_max_model_len": longest,
        "blocks_per_request_by_group": [
            _blocks(vllm_config, group) for group in own if not group.host_resident
        ],
    }


def _blocks(vllm_config: Any, group: Any) -> int | None:
    spec = group.kv_cache_spec
    if not group.layer_names and isinstance(spec, interface.UniformTypeKVCacheSpecs):
        return None
    need: int = spec.max_memory_usage_bytes(vllm_config)
    return -(-need // int(spec.page_size_bytes))


def _configs(configs: Sequence[Any]) -> dict[str, Any]:
    shown = (
        *("num_blocks", "kv_tp_replicas", "kv_cache_layout", "hash_block_size"),
        *("cache_hit_alignment_tokens", "has_mamba_layers", "needs_kv_cache_zeroing"),
    )
    workers = []
    for config in configs:
        tensors = [tensor_json(tensor) for tensor in config.kv_cache_tensors]
        workers.append(
            {
                **{name: getattr(config, name, None) for name in shown},
                "groups": [group_json(group) for group in config.kv_cache_groups],
                "kv_cache_tensors": tensors,
                "total_kv_bytes": max((tensor["size"] for tensor in tensors), default=0),
            }
        )
    return {
        "num_blocks": configs[0].num_blocks,
        "kv_tp_replicas": configs[0].kv_tp_replicas,
        "workers": workers,
    }


def _reported(vllm_config: Any, scheduler_view: Any) -> dict[str, Any]:
    cache = vllm_config.cache_config
    reported = {
        "kv_cache_size_tokens": cache.kv_cache_size_tokens,
        "kv_cache_max_concurrency": cache.kv_cache_max_concurrency,
        "cache_config_block_size": cache.block_size,
        "enable_prefix_caching": cache.enable_prefix_caching,
    }
    try:
        sizes = utils.resolve_kv_cache_block_sizes(scheduler_view, vllm_config)
    except Exception as error:
        reported["scheduler_block_size_error"] = f"{type(error).__name__}: {error}"
    else:
        reported["scheduler_block_size"], reported["hash_block_size"] = sizes
    return reported
