"""What a plan is made of: values that renderers, gates and tests read.

Bytes are integers; scope stands in the name or the docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import KVCacheSpec
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs


class GroupRole(Enum):
    """What a group stands for with HiSparse; DEFAULT elsewhere."""

    DEFAULT = "default"
    HISPARSE_SOURCE = "hisparse_source"
    HISPARSE_INDEXER = "hisparse_indexer"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheGroup:
    """Layers that share a block table.

    is_eagle_group: the engine's word for "holds a drafter's layers".
    """

    layer_names: tuple[str, ...]
    spec: KVCacheSpec | UniformTypeKVCacheSpecs
    is_eagle_group: bool = False
    host_resident: bool = False
    role: GroupRole = GroupRole.DEFAULT
    enable_kv_transfer: bool = True

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of one layer; of all layers where pages differ (a bundle)."""
        return self.spec.page_size_bytes

    @property
    def block_size(self) -> int:
        """Tokens in a block."""
        return self.spec.block_size


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


class WarningKind(Enum):
    """What the engine warns about while it plans, or what costs memory silently."""

    PADDING_LAYERS = "padding_layers"
    HYBRID_MANAGER_DISABLED = "hybrid_manager_disabled"
    FULL_ALLOCATION_FALLBACK = "full_allocation_fallback"
    HIDDEN_STATE_PAGE_WASTE = "hidden_state_page_waste"
    NO_DRAFTER_GROUP = "no_drafter_group"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """A finding of the planner, in words that stand alone."""

    kind: WarningKind
    message: str


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
    kv_cache_size_tokens: the token line of newer releases, int(concurrency x length).
    kv_cache_size_tokens_by_blocks: the token line of releases up to about 0.20,
        num_blocks // groups x block size (x decode context parallel size).
    max_concurrency: requests of max_model_len at a time.
    limiting_worker: index of the worker with the fewest blocks.
    auto_fit_limiting_worker: index of the worker that shortened max_model_len, None when the
        full length fits or no auto-fit was asked for.
    """

    layout: KVCacheLayout
    max_model_len: int
    groups: tuple[KVCacheGroup, ...]
    workers: tuple[WorkerPlan, ...]
    num_blocks: int
    max_concurrency: float
    kv_cache_size_tokens: int
    kv_cache_size_tokens_by_blocks: int
    kv_tp_replicas: int
    scheduler_block_size: int
    hash_block_size: int
    limiting_worker: int
    auto_fit_limiting_worker: int | None
    host_pool: HostPool | None = None
    warnings: tuple[PlanWarning, ...] = ()


class RefusalKind(Enum):
    """Why the engine would not start with this cache."""

    NO_MEMORY = "no_available_memory"
    REQUEST_TOO_LARGE = "request_too_large"
    CANNOT_AUTO_FIT = "cannot_auto_fit"
    HOST_POOL_TOO_SMALL = "host_pool_too_small"
    PAGE_SIZES = "page_sizes_cannot_be_unified"
    PROMOTION = "local_layers_cannot_be_promoted"
    WINDOWS = "conflicting_window_sizes"
    LAYOUT = "layout_cannot_express_pages"
    UNSUPPORTED_SPEC = "unsupported_spec"
    NO_BLOCKS_LAYERS = "no_cacheable_layers"


# Refusals that more memory or a shorter length would mend: "does not fit".
MEMORY_REFUSALS = frozenset(
    {
        RefusalKind.NO_MEMORY,
        RefusalKind.REQUEST_TOO_LARGE,
        RefusalKind.CANNOT_AUTO_FIT,
        RefusalKind.HOST_POOL_TOO_SMALL,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The engine refuses this plan at start; the figures it names.

    message: the engine's own words, complete. error_type: its exception class.
    max_model_len: tokens that were asked for. needed_bytes, available_bytes: of one request
    and of the worker (the null block taken off). estimated_max_model_len: tokens that would
    fit, None where none does. worker: index of the worker that refuses.
    groups: the model's groups, where grouping itself worked.
    """

    kind: RefusalKind
    error_type: str
    message: str
    layout: KVCacheLayout | None = None
    max_model_len: int | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None
    estimated_max_model_len: int | None = None
    worker: int | None = None
    needed_blocks: int | None = None
    available_blocks: int | None = None
    bytes_per_block: int | None = None
    groups: tuple[KVCacheGroup, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
