"""Groups, and what grouping may say beside them: warnings and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum

from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import KVCacheSpec
from kvplan_cli.specs.bundle import GroupSpec, UniformTypeKVCacheSpecs
from kvplan_cli.values import dataclass


class GroupRole(Enum):
    """What a group stands for with HiSparse; DEFAULT elsewhere."""

    DEFAULT = "default"
    HISPARSE_SOURCE = "hisparse_source"
    HISPARSE_INDEXER = "hisparse_indexer"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheGroup:
    """Layers that share a block table.

    is_eagle_group: the engine's word for "holds a drafter's layers". host_resident: its blocks
    stand in the host pool. layers_by_spec: the layers of each distinct spec, in order.
    """

    layer_names: tuple[str, ...]
    spec: GroupSpec
    is_eagle_group: bool = False
    host_resident: bool = False
    role: GroupRole = GroupRole.DEFAULT
    enable_kv_transfer: bool = True
    layers_by_spec: Mapping[KVCacheSpec, tuple[str, ...]] = field(
        init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        if not self.layer_names:
            by_spec: dict[KVCacheSpec, tuple[str, ...]] = {}
        elif isinstance(self.spec, UniformTypeKVCacheSpecs):
            by_spec = self.spec.layers_by_spec
        else:
            by_spec = {self.spec: self.layer_names}
        object.__setattr__(self, "layers_by_spec", by_spec)

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of one layer; of all layers together in a bundle."""
        return self.spec.page_size_bytes

    @property
    def block_size(self) -> int:
        """Tokens in a block."""
        return self.spec.block_size

    @property
    def scheduler_spec(self) -> KVCacheSpec:
        """The layer spec that speaks for the group before the scheduler."""
        return self.spec.first_spec if isinstance(self.spec, UniformTypeKVCacheSpecs) else self.spec


class WarningKind(Enum):
    """What the engine warns about while it plans, or what costs memory silently."""

    PADDING_LAYERS = "padding_layers"
    HYBRID_MANAGER_DISABLED = "hybrid_manager_disabled"
    FULL_ALLOCATION_FALLBACK = "full_allocation_fallback"
    HIDDEN_STATE_PAGE_WASTE = "hidden_state_page_waste"
    NO_DRAFTER_GROUP = "no_drafter_group"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """A finding of the planner, in the engine's words."""

    kind: WarningKind
    message: str


class RefusalKind(Enum):
    """Why the engine would not start with this cache."""

    NO_MEMORY = "no_available_memory"
    REQUEST_TOO_LARGE = "request_too_large"
    CANNOT_AUTO_FIT = "cannot_auto_fit"
    HOST_POOL_TOO_SMALL = "host_pool_too_small"
    HISPARSE = "hisparse_not_possible"
    PAGE_SIZES = "page_sizes_cannot_be_unified"
    PROMOTION = "local_layers_cannot_be_promoted"
    WINDOWS = "conflicting_window_sizes"
    LAYOUT = "layout_cannot_express_pages"
    UNSUPPORTED_SPEC = "unsupported_spec"
    CONTEXT_PARALLEL = "context_parallel_not_supported"
    PREFIX_ALIGNMENT = "prefix_cache_alignment"
    UNSPLITTABLE = "bucket_cannot_be_split"
    NO_CACHED_LAYER = "no_cached_layer"
    EMPTY_BLOCK = "block_without_a_state"
    TOO_FEW_STATES = "too_few_state_blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The engine refuses this plan at start; the figures it names.

    message: the engine's own words, complete. error_type: its exception class.
    max_model_len: tokens that were asked for. needed_bytes, available_bytes: of one request
    and of the worker (the null block taken off). estimated_max_model_len: tokens that would
    fit, None where none does. needed_blocks, available_blocks: of the host pool, or of
    states.
    worker: index of the worker that refuses. bytes_per_block: on that worker.
    groups: the model's groups, where grouping itself worked. explanation: what happened, where
    the engine stops by an assertion or an accident whose words do not say it.
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
    explanation: str | None = None
    groups: tuple[KVCacheGroup, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()


class RefusedError(Exception):
    """Carries a refusal out of the planner's depth; ``plan`` returns it as a value."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def refuse(
    kind: RefusalKind,
    message: str,
    error_type: str = "ValueError",
    explanation: str | None = None,
) -> RefusedError:
    """The exception for a refusal that has no figures."""
    return RefusedError(
        Refusal(kind=kind, error_type=error_type, message=message, explanation=explanation)
    )


def device_groups(groups: Iterable[KVCacheGroup]) -> tuple[KVCacheGroup, ...]:
    """The groups whose blocks stand in the device's pool."""
    return tuple(group for group in groups if not group.host_resident)
