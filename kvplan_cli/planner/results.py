"""What a plan is made of: values that renderers, gates and tests read.

Bytes are integers; scope stands in the name or the docstring.
"""

from __future__ import annotations

from kvplan_cli.grouping.group import (
    GroupRole,
    KVCacheGroup,
    PlanWarning,
    Refusal,
    RefusalKind,
    WarningKind,
)
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.values import dataclass

__all__ = [
    "MEMORY_REFUSALS",
    "GroupRole",
    "HostPool",
    "KVCacheGroup",
    "KVCacheTensor",
    "Plan",
    "PlanWarning",
    "Refusal",
    "RefusalKind",
    "WarningKind",
    "WorkerPlan",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheTensor:
    """Where equal layers stand in the allocation.

    Page of ``layers[i]`` for block ``b``: ``offset + i * layer_stride + b * block_stride``
    bytes into an allocation of ``size`` bytes.
    """

    size: int
    layers: tuple[str, ...]
    layer_stride: int
    block_stride: int
    offset: int = 0
    host_resident: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One worker (one pipeline stage; tensor parallel ranks of a stage are equal).

    available_memory_bytes: as given for this worker (the override's bytes when one is set).
    bytes_per_block: bytes that one block id costs on this worker.
    num_blocks_alone: blocks this worker could hold were it the only one.
    num_blocks: blocks that the smallest worker allows, the same for all.
    request_need_bytes: bytes that one request at max_model_len needs, without the null block.
    blocks_per_request_by_group: the same in blocks, device groups in order.
    unused_bytes: available bytes that no block uses.
    """

    available_memory_bytes: int
    bytes_per_block: int
    num_blocks_alone: int
    num_blocks: int
    request_need_bytes: int
    blocks_per_request_by_group: tuple[int, ...]
    groups: tuple[KVCacheGroup, ...]
    kv_cache_tensors: tuple[KVCacheTensor, ...]
    kv_tp_replicas: int

    @property
    def allocated_bytes(self) -> int:
        """Bytes of this worker's KV allocation."""
        return self.bytes_per_block * self.num_blocks

    @property
    def unused_bytes(self) -> int:
        """Available bytes that the allocation leaves."""
        return self.available_memory_bytes - self.allocated_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPool:
    """The host side of host-backed sparse MLA (HiSparse).

    block_stride_bytes: host bytes a block. steady_state_concurrency: requests once running
    ones read from the host.
    """

    num_blocks: int
    block_stride_bytes: int
    steady_state_concurrency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the engine plans; it fits.

    max_model_len: tokens, after auto-fit. groups: of the whole model.
    num_blocks: of every worker, the null block included, as the engine prints it.
    kv_cache_size_tokens: the token line from release 0.20.1 on, int(concurrency x length).
    kv_cache_size_tokens_by_blocks: the token line of releases up to 0.20.0,
        num_blocks // groups x block size (x decode context parallel size).
    max_concurrency: requests of max_model_len at a time.
    block_size: tokens, the engine's global block size after grouping.
    limiting_worker: index of the worker with the fewest blocks.
    auto_fit_limiting_worker: index of the worker that shortened max_model_len, None when the
        full length fits or no auto-fit was asked for.
    max_concurrency and both token figures are None for a model that caches nothing.
    """

    layout: KVCacheLayout
    max_model_len: int
    groups: tuple[KVCacheGroup, ...]
    workers: tuple[WorkerPlan, ...]
    num_blocks: int
    max_concurrency: float | None
    kv_cache_size_tokens: int | None
    kv_cache_size_tokens_by_blocks: int | None
    kv_tp_replicas: int
    block_size: int
    scheduler_block_size: int
    hash_block_size: int
    limiting_worker: int
    auto_fit_limiting_worker: int | None
    host_pool: HostPool | None = None
    warnings: tuple[PlanWarning, ...] = ()


# Refusals that more memory or a shorter length would mend: "does not fit".
MEMORY_REFUSALS = frozenset(
    {
        RefusalKind.NO_MEMORY,
        RefusalKind.REQUEST_TOO_LARGE,
        RefusalKind.CANNOT_AUTO_FIT,
        RefusalKind.HOST_POOL_TOO_SMALL,
        RefusalKind.TOO_FEW_STATES,
    }
)
