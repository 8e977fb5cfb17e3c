"""What the engine reports at start: concurrency, tokens, block sizes, replicas.

Source: vLLM 0.33.0 ``v1/core/kv_cache_utils.py`` (``get_max_concurrency_for_kv_cache_config``,
``resolve_kv_cache_block_sizes``) and ``kv_cache_planning.py:kv_cache_groups_tp_replicas``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from kvplan_cli.grouping.group import KVCacheGroup, RefusalKind, refuse
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.sizing import blocks_per_request
from kvplan_cli.specs import AttentionSpec, KVCacheSpec, MambaCacheMode, MambaSpec
from kvplan_cli.specs.bundle import iter_layer_specs

Groups = Sequence[KVCacheGroup]


def max_concurrency(
    groups: Groups,
    *,
    num_blocks: int,
    host_blocks: int | None,
    max_model_len: int,
    settings: PlannerSettings,
) -> float:
    """Requests of ``max_model_len`` that the pools hold at a time; the lower of both pools."""
    limits = settings.request_limits
    needed = {True: 0, False: 0}
    for group in groups:
        blocks = blocks_per_request(group, max_model_len, limits)
        needed[group.host_resident] += blocks
    concurrency = num_blocks / needed[False]
    if needed[True] and host_blocks is not None:
        concurrency = min(concurrency, host_blocks / needed[True])
    return concurrency


def tokens_by_blocks(groups: Groups, num_blocks: int, settings: PlannerSettings) -> int:
    """Token capacity as releases up to 0.20.0 printed it: blocks a group x block size."""
    shards = settings.decode_context_parallel_size
    return num_blocks // len(groups) * global_block_size(groups, settings) * shards


def global_block_size(groups: Groups, settings: PlannerSettings) -> int:
    """Tokens of the engine's global block size after grouping: the least over groups.

    Groups that prefix caching passes over do not count where any other is there.
    """
    if not groups:
        return settings.block_size
    cacheable = [g.block_size for g in groups if g.scheduler_spec.prefix_cacheable]
    return min(cacheable or [g.block_size for g in groups])


def kv_tp_replicas(groups: Groups, settings: PlannerSettings) -> int:
    """Consecutive tensor parallel ranks that hold the same KV for every layer."""
    specs = [spec for group in groups for spec in iter_layer_specs(group.spec)]
    if not specs:
        return 1
    tp = settings.tensor_parallel_size
    return reduce(math.gcd, (_layer_replicas(spec, settings) for spec in specs), tp)


def _layer_replicas(spec: KVCacheSpec, settings: PlannerSettings) -> int:
    if not isinstance(spec, AttentionSpec) or spec.max_tp_shards is None:
        return 1
    if spec.dcp_sharded and settings.decode_context_parallel_size > 1:
        return 1
    return max(1, settings.tensor_parallel_size // spec.max_tp_shards)


def scheduler_and_hash_block_size(groups: Groups, settings: PlannerSettings) -> tuple[int, int]:
    """Tokens by which the scheduler aligns, and tokens of one prefix-cache hash.

    Raises: RefusedError when compressed states do not align with prefix-cache hits.
    """
    dcp = settings.decode_context_parallel_size
    if len(groups) <= 1:
        sharded = not groups or groups[0].scheduler_spec.dcp_sharded
        size = global_block_size(groups, settings) * (dcp if sharded else 1)
        _check_only_unit(groups, size, settings)
        return size, size
    specs = [group.scheduler_spec for group in groups]
    sizes = [_span(spec, dcp) for spec in specs]
    scheduler_block_size = math.lcm(*sizes)
    unaligned_states = any(
        isinstance(spec, MambaSpec) and spec.mamba_cache_mode is not MambaCacheMode.ALIGN
        for spec in specs
    )
    if not settings.enable_prefix_caching or unaligned_states:
        return scheduler_block_size, scheduler_block_size
    hashing = [s for s, spec in zip(sizes, specs, strict=True) if spec.prefix_cacheable]
    hash_block_size = settings.prefix_match_unit or math.gcd(*(hashing or sizes))
    if any(size % hash_block_size for size in hashing or sizes):
        raise refuse(
            RefusalKind.PREFIX_ALIGNMENT,
            f"Invalid prefix_match_unit={hash_block_size}; prefix-cacheable KV cache group block "
            f"sizes must be divisible by prefix_match_unit. Got group block sizes={sizes}, "
            f"prefix-cacheable={hashing or sizes}.",
        )
    _check_alignment(specs, scheduler_block_size, hash_block_size, dcp)
    return scheduler_block_size, hash_block_size


def _check_only_unit(groups: Groups, size: int, settings: PlannerSettings) -> None:
    unit = settings.prefix_match_unit
    if unit in (None, size) or not groups or not settings.enable_prefix_caching:
        return
    raise refuse(
        RefusalKind.PREFIX_ALIGNMENT,
        f"Invalid prefix_match_unit={unit}; with a single KV cache group, prefix-cache hits land "
        f"on the block size ({size}). Unset it or set it to {size}.",
    )


def check_block_size(block_size: int, settings: PlannerSettings) -> None:
    """What the engine asks of its block size once the groups are made.

    Raises: RefusedError. Source: vLLM 0.33.0 ``vllm/config/vllm.py:validate_block_size``.
    """
    interleave = settings.cp_kv_cache_interleave_size
    if settings.decode_context_parallel_size > 1 and block_size % interleave:
        raise refuse(
            RefusalKind.CONTEXT_PARALLEL,
            f"Block_size({block_size}) should be greater than or equal to and divisible by "
            f"cp_kv_cache_interleave_size ({interleave}).",
            "AssertionError",
        )
    if settings.mamba_cache_mode is MambaCacheMode.ALIGN and settings.disable_chunked_mm_input:
        raise refuse(
            RefusalKind.PREFIX_ALIGNMENT,
            "Chunked MM input is required because we need the flexibility to schedule a multiple "
            "of block_size tokens even if they are in the middle of a mm input",
            "AssertionError",
        )


def _span(spec: KVCacheSpec, dcp: int) -> int:
    return spec.block_size * (dcp if spec.dcp_sharded else 1)


def _check_alignment(
    specs: Sequence[KVCacheSpec],
    scheduler_block_size: int,
    hash_block_size: int,
    dcp: int,
) -> None:
    fine_grained = any(
        isinstance(spec, MambaSpec)
        and spec.mamba_cache_mode is MambaCacheMode.ALIGN
        and (spec.block_size > hash_block_size or (dcp > 1 and spec.block_size == hash_block_size))
        for spec in specs
    )
    hit = hash_block_size if fine_grained else scheduler_block_size
    alignments = sorted(
        {
            spec.tokens_per_state
            for spec in specs
            if isinstance(spec, AttentionSpec)
            and spec.prefix_cacheable
            and isinstance(spec.tokens_per_state, int)
            and spec.tokens_per_state > 1
        }
    )
    if any(hit % alignment for alignment in alignments):
        raise refuse(
            RefusalKind.PREFIX_ALIGNMENT,
            f"Invalid prefix_match_unit={hash_block_size}; prefix-cache boundaries must align "
            f"with each spec's per-state compression. Got alignments={alignments}.",
        )
