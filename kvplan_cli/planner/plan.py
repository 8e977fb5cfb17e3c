"""The plan: groups, blocks, tensors and figures of all workers, or the engine's refusal.

Source: vLLM 0.33.0 ``v1/engine/core.py:_initialize_kv_caches`` and
``v1/core/kv_cache_planning.py:get_kv_cache_configs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan_cli.engine_rules import DrafterRule
from kvplan_cli.grouping.group import (
    KVCacheGroup,
    PlanWarning,
    Refusal,
    RefusalKind,
    RefusedError,
    device_groups,
    refuse,
)
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.grouping.strategy import Grouping, global_groups
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.planner.capacity import (
    check_block_size,
    global_block_size,
    kv_tp_replicas,
    max_concurrency,
    scheduler_and_hash_block_size,
    tokens_by_blocks,
)
from kvplan_cli.planner.empty_blocks import check_strides
from kvplan_cli.planner.fitting import WorkerMemory, auto_fit_max_model_len, check_request_fits
from kvplan_cli.planner.host_pool import host_pool_blocks, steady_state_concurrency
from kvplan_cli.planner.layout_choice import check_layout, resolve_layout
from kvplan_cli.planner.results import HostPool, KVCacheTensor, Plan, WorkerPlan
from kvplan_cli.planner.sizing import blocks_per_request, bytes_per_block, place_tensors
from kvplan_cli.recall import Call, call
from kvplan_cli.specs.bundle import LayerSpecs, UniformTypeKVCacheSpecs

HOST_LAYOUT = KVCacheLayout.LBNHC


def plan(
    workers: Sequence[LayerSpecs],
    available_bytes: Sequence[int],
    settings: PlannerSettings,
    recall: Call = call,
) -> Plan | Refusal:
    """Plan the KV cache of all workers.

    workers: for each pipeline stage, layer name to spec in registration order.
    available_bytes: bytes for the KV cache, one value a worker. recall: how the steps that do
    not depend on the memory are called, for callers that plan the same layers many times.
    Raises: ValueError when the two do not pair up, or two workers store one layer differently.
    """
    if len(workers) != len(available_bytes):
        raise ValueError(f"{len(workers)} workers but {len(available_bytes)} memories")
    layout: KVCacheLayout | None = None
    grouping = Grouping(groups=())
    try:
        layout = recall(resolve_layout, workers, settings)
        grouping = recall(global_groups, workers, settings, layout)
        return _planned(workers, available_bytes, settings, layout, grouping)
    except RefusedError as error:
        return replace(
            error.refusal, layout=layout, groups=grouping.groups, warnings=grouping.warnings
        )


def _planned(
    workers: Sequence[LayerSpecs],
    available_bytes: Sequence[int],
    settings: PlannerSettings,
    layout: KVCacheLayout,
    grouping: Grouping,
) -> Plan:
    memories = worker_memories(workers, available_bytes, settings, layout, grouping.groups)
    max_model_len, auto_fit_limit = settings.max_model_len, None
    if not grouping.groups:
        return _attention_free(memories, settings, layout, grouping.warnings)
    if settings.auto_fit:
        max_model_len, auto_fit_limit = auto_fit_max_model_len(memories, settings)
    for memory in memories:
        check_request_fits(memory, max_model_len, settings)
    return allocated_plan(memories, max_model_len, settings, layout, grouping, auto_fit_limit)


def allocated_plan(
    memories: Sequence[WorkerMemory],
    max_model_len: int,
    settings: PlannerSettings,
    layout: KVCacheLayout,
    grouping: Grouping,
    auto_fit_limit: int | None = None,
) -> Plan:
    """What these memories hold, whether or not one request fits them.

    Raises: RefusedError where the layout or the host pool refuses.
    """
    alone = [_num_blocks(memory, settings) for memory in memories]
    num_blocks = min(alone)
    host = None
    if settings.hisparse is not None and any(g.host_resident for g in grouping.groups):
        host = host_pool_blocks(grouping.groups, max_model_len, settings)
    worker_plans = tuple(
        _worker_plan(memory, blocks, num_blocks, max_model_len, settings, layout, host)
        for memory, blocks in zip(memories, alone, strict=True)
    )
    return _plan(worker_plans, max_model_len, settings, layout, grouping, auto_fit_limit, host)


def worker_memories(
    workers: Sequence[LayerSpecs],
    available_bytes: Sequence[int],
    settings: PlannerSettings,
    layout: KVCacheLayout,
    groups: tuple[KVCacheGroup, ...],
) -> list[WorkerMemory]:
    """Each worker's part of the groups, bytes of its block and memory.

    Raises: RefusedError where the layout cannot hold a worker's pages.
    """
    memories = []
    for index, (layers, available) in enumerate(zip(workers, available_bytes, strict=True)):
        projected = _project(groups, layers, settings) if len(workers) > 1 else groups
        block = 0
        if projected:
            on_device = device_groups(projected)
            check_layout(layout, on_device)
            check_strides(on_device)
            block = bytes_per_block(on_device, layout)
            if block == 0:
                # A stage without a cached layer: the engine divides its memory by zero.
                raise refuse(
                    RefusalKind.NO_CACHED_LAYER,
                    "integer division or modulo by zero",
                    "ZeroDivisionError",
                    f"pipeline stage {index} holds no layer with a KV cache",
                )
        override = settings.num_gpu_blocks_override
        if override is not None and projected:
            available = override * block
        memories.append(
            WorkerMemory(
                index=index,
                groups=projected,
                bytes_per_block=block,
                available_bytes=available,
                null_block_bytes=block if settings.rules.reserves_null_block else 0,
            )
        )
    return memories


def _project(
    groups: tuple[KVCacheGroup, ...], layers: LayerSpecs, settings: PlannerSettings
) -> tuple[KVCacheGroup, ...]:
    """The groups with this worker's layers only; a group without any stays, empty."""
    projected = []
    for group in groups:
        names = tuple(name for name in group.layer_names if name in layers)
        if len(names) == len(group.layer_names):
            projected.append(group)
            continue
        spec = group.spec
        if names and isinstance(spec, UniformTypeKVCacheSpecs):
            spec = spec.subset(names)
        keeps_mark = bool(names) or settings.rules.drafter_rule is DrafterRule.BY_LAYER
        projected.append(
            replace(
                group,
                layer_names=names,
                spec=spec,
                is_eagle_group=group.is_eagle_group and keeps_mark,
            )
        )
    return tuple(projected)


def _num_blocks(memory: WorkerMemory, settings: PlannerSettings) -> int:
    if settings.num_gpu_blocks_override is not None:
        return settings.num_gpu_blocks_override
    return memory.available_bytes // memory.bytes_per_block


def _worker_plan(
    memory: WorkerMemory,
    num_blocks_alone: int,
    num_blocks: int,
    max_model_len: int,
    settings: PlannerSettings,
    layout: KVCacheLayout,
    host: tuple[int, int] | None,
) -> WorkerPlan:
    on_device = device_groups(memory.groups)
    tensors = place_tensors(
        on_device, num_blocks=num_blocks, block_bytes=memory.bytes_per_block, layout=layout
    )
    if host is not None:
        tensors = _host_tensors(memory.groups, host[0]) + tensors
    limits = settings.request_limits
    blocks = tuple(blocks_per_request(group, max_model_len, limits) for group in on_device)
    return WorkerPlan(
        available_memory_bytes=memory.available_bytes,
        bytes_per_block=memory.bytes_per_block,
        num_blocks_alone=num_blocks_alone,
        num_blocks=num_blocks,
        request_need_bytes=sum(blocks) * memory.bytes_per_block,
        blocks_per_request_by_group=blocks,
        groups=memory.groups,
        kv_cache_tensors=tensors,
        kv_tp_replicas=kv_tp_replicas(memory.groups, settings),
    )


def _host_tensors(groups: tuple[KVCacheGroup, ...], host_blocks: int) -> tuple[KVCacheTensor, ...]:
    source = tuple(group for group in groups if group.host_resident)
    return place_tensors(
        source,
        num_blocks=host_blocks,
        block_bytes=bytes_per_block(source, HOST_LAYOUT),
        layout=HOST_LAYOUT,
        host_resident=True,
    )


def _plan(
    workers: tuple[WorkerPlan, ...],
    max_model_len: int,
    settings: PlannerSettings,
    layout: KVCacheLayout,
    grouping: Grouping,
    auto_fit_limit: int | None,
    host: tuple[int, int] | None,
) -> Plan:
    # The scheduler is set up from the first worker's groups.
    groups = workers[0].groups
    num_blocks = workers[0].num_blocks
    concurrency = max_concurrency(
        groups,
        num_blocks=num_blocks,
        host_blocks=None if host is None else host[0],
        max_model_len=max_model_len,
        settings=settings,
    )
    block_size = global_block_size(groups, settings)
    check_block_size(block_size, settings)
    scheduler_block_size, hash_block_size = scheduler_and_hash_block_size(groups, settings)
    alone = [worker.num_blocks_alone for worker in workers]
    return Plan(
        layout=layout,
        max_model_len=max_model_len,
        groups=grouping.groups,
        workers=workers,
        num_blocks=num_blocks,
        max_concurrency=concurrency,
        kv_cache_size_tokens=int(concurrency * max_model_len),
        kv_cache_size_tokens_by_blocks=tokens_by_blocks(groups, num_blocks, settings),
        kv_tp_replicas=workers[0].kv_tp_replicas,
        block_size=block_size,
        scheduler_block_size=scheduler_block_size,
        hash_block_size=hash_block_size,
        limiting_worker=alone.index(min(alone)),
        auto_fit_limiting_worker=auto_fit_limit,
        host_pool=_host_pool(groups, num_blocks, max_model_len, settings, host),
        warnings=grouping.warnings,
    )


def _host_pool(
    groups: tuple[KVCacheGroup, ...],
    num_blocks: int,
    max_model_len: int,
    settings: PlannerSettings,
    host: tuple[int, int] | None,
) -> HostPool | None:
    if host is None:
        return None
    host_blocks, stride = host
    steady = steady_state_concurrency(
        groups,
        num_blocks=num_blocks,
        host_blocks=host_blocks,
        max_model_len=max_model_len,
        settings=settings,
    )
    return HostPool(
        num_blocks=host_blocks, block_stride_bytes=stride, steady_state_concurrency=steady
    )


def _attention_free(
    memories: Sequence[WorkerMemory],
    settings: PlannerSettings,
    layout: KVCacheLayout,
    warnings: tuple[PlanWarning, ...],
) -> Plan:
    """A model that caches nothing: the pool still holds its null block."""
    workers = tuple(
        WorkerPlan(
            available_memory_bytes=memory.available_bytes,
            bytes_per_block=0,
            num_blocks_alone=1,
            num_blocks=1,
            request_need_bytes=0,
            blocks_per_request_by_group=(),
            groups=(),
            kv_cache_tensors=(),
            kv_tp_replicas=1,
        )
        for memory in memories
    )
    size = settings.block_size * settings.decode_context_parallel_size
    return Plan(
        layout=layout,
        max_model_len=settings.max_model_len,
        groups=(),
        workers=workers,
        num_blocks=1,
        max_concurrency=None,
        kv_cache_size_tokens=None,
        kv_cache_size_tokens_by_blocks=None,
        kv_tp_replicas=1,
        block_size=settings.block_size,
        scheduler_block_size=size,
        hash_block_size=size,
        limiting_worker=0,
        auto_fit_limiting_worker=None,
        warnings=warnings,
    )
