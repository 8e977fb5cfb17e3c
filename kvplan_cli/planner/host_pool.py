"""The host side of host-backed sparse MLA.

Source: vLLM 0.33.0 ``v1/hisparse/layout.py`` (``create_hisparse_layout``,
``get_hisparse_steady_state_concurrency``).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.grouping.group import (
    KVCacheGroup,
    Refusal,
    RefusalKind,
    RefusedError,
    device_groups,
    refuse,
)
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.sizing import blocks_per_request, request_blocks
from kvplan_cli.specs import HiSparseResidentSpec
from kvplan_cli.units import cdiv, round_up

# Shared pools are mapped by pages of the operating system.
SHARED_POOL_ALIGNMENT_BYTES = 4096
# The null block, and a copy-on-write tail.
SPARE_HOST_BLOCKS = 2
# Pages behind a sequence's end that stay on the device while it reads from the host.
ACTIVE_TAIL_PAGES = 2


def host_block_stride_bytes(group: KVCacheGroup, *, shared_host_pool: bool) -> int:
    """Host bytes of one block of the source group."""
    if shared_host_pool:
        return round_up(group.page_size_bytes, SHARED_POOL_ALIGNMENT_BYTES)
    return group.page_size_bytes


def host_pool_blocks(
    groups: Sequence[KVCacheGroup], max_model_len: int, settings: PlannerSettings
) -> tuple[int, int]:
    """Blocks of the host pool, and host bytes of one.

    Raises: RefusedError when one request of ``max_model_len`` does not fit the pool.
    """
    assert settings.hisparse is not None
    (source,) = (group for group in groups if group.host_resident)
    stride = host_block_stride_bytes(source, shared_host_pool=settings.hisparse.shared_host_pool)
    blocks = settings.hisparse.host_pool_bytes // stride
    if blocks <= 0:
        raise refuse(RefusalKind.HOST_POOL_TOO_SMALL, "HiSparse has no allocatable host blocks.")
    needed = cdiv(max_model_len, source.block_size) + SPARE_HOST_BLOCKS
    if blocks < needed:
        raise RefusedError(
            Refusal(
                kind=RefusalKind.HOST_POOL_TOO_SMALL,
                error_type="ValueError",
                message=(
                    f"HiSparse host pool has {blocks} blocks but max_model_len needs {needed}; "
                    "increase host_pool_gib."
                ),
                max_model_len=max_model_len,
                needed_blocks=needed,
                available_blocks=blocks,
            )
        )
    return blocks, stride


def steady_state_concurrency(
    groups: Sequence[KVCacheGroup],
    *,
    num_blocks: int,
    host_blocks: int,
    max_model_len: int,
    settings: PlannerSettings,
) -> float:
    """Requests at max_model_len once running ones read from the host.

    One request is being admitted with all its tokens in flight, the others keep only the
    active tail of each resident group.
    """
    limits = settings.request_limits
    admission = request_blocks(groups, max_model_len, limits)
    steady = sum(
        min(blocks, ACTIVE_TAIL_PAGES) if isinstance(g.spec, HiSparseResidentSpec) else blocks
        for g in device_groups(groups)
        for blocks in (blocks_per_request(g, max_model_len, limits),)
    )
    on_host = sum(blocks_per_request(g, max_model_len, limits) for g in groups if g.host_resident)
    if num_blocks < admission:
        device = num_blocks / admission
    else:
        device = 1 + (num_blocks - admission) / steady
    return min(device, host_blocks / on_host)
