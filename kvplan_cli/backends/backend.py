"""What an attention backend can do: one row of data and rules, and the check of a request.

Source: vLLM 0.33.0 ``vllm/v1/attention/backend.py:AttentionBackend``.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan_cli.backends.facts import Capability, Facts
from kvplan_cli.backends.packing import unpacked
from kvplan_cli.backends.request import AttentionType, BackendRequest
from kvplan_cli.dtypes import DType
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import AttentionSpec, MultipleOf
from kvplan_cli.values import dataclass

KernelBlockSize = int | MultipleOf
Layouts = tuple[KVCacheLayout, ...]

# The engine's block size where neither user nor backend wants another.
DEFAULT_BLOCK_SIZE = 16


def never(_facts: Facts) -> bool:
    """A feature that the backend has on no card."""
    return False


def always(_facts: Facts) -> bool:
    """A feature that the backend has on every card."""
    return True


def no_preference(_facts: Facts) -> Layouts | None:
    """The kernels read any layout."""
    return None


def no_objection(_request: BackendRequest, _facts: Facts) -> str | None:
    """No combination of supported features is refused."""
    return None


def any_head_size(_head_size: int, _facts: Facts) -> bool:
    """Every head size is supported."""
    return True


def any_capability(_capability: Capability) -> bool:
    """Every card is supported."""
    return True


def no_demand(_spec: AttentionSpec, _facts: Facts) -> int | MultipleOf | None:
    """Blocks may lie at any distance."""
    return None


def any_multiple(_facts: Facts, _spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    """The kernels take blocks of any size."""
    return (MultipleOf(1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One attention backend.

    name: the engine's. dtypes: of the model. kv_cache_dtype: whether it reads that KV dtype.
    kernel_block_sizes: block sizes of its kernels, for one spec or (None) for the whole
    model. layouts: those its kernels read, best first, None for any. objection: why a
    combination of supported features is refused. packing: what it does to a layer's spec.
    stride_alignment: what the distance of two blocks must be a multiple of.
    preferred_block_size: tokens, where the backend insists. rejects_empty_sizes: no kernel
    block size at all means that none is supported. ssm: it runs recurrent states. mla, sparse:
    it reads latent vectors, and only those that an indexer chose. non_causal_dcp: non-causal
    steps of several tokens over context parallel ranks.
    """

    name: str
    dtypes: frozenset[DType]
    kv_cache_dtype: Callable[[str, Facts], bool]
    head_size: Callable[[int, Facts], bool] = any_head_size
    kernel_block_sizes: Callable[[Facts, AttentionSpec | None], tuple[KernelBlockSize, ...]] = (
        any_multiple
    )
    capability: Callable[[Capability], bool] = any_capability
    attention_types: frozenset[AttentionType] = frozenset({AttentionType.DECODER})
    sink: Callable[[Facts], bool] = never
    mm_prefix: Callable[[Facts], bool] = never
    per_head_quant_scales: Callable[[Facts], bool] = never
    sliding_window: bool = False
    rswa: bool = False
    non_causal: bool = False
    batch_invariance: bool = False
    mla: bool = False
    sparse: bool = False
    pcp: bool = False
    dcp: bool = False
    ssm: bool = False
    non_causal_dcp: bool = False
    layouts: Callable[[Facts], Layouts | None] = no_preference
    objection: Callable[[BackendRequest, Facts], str | None] = no_objection
    packing: Callable[[AttentionSpec], AttentionSpec] = unpacked
    stride_alignment: Callable[[AttentionSpec, Facts], int | MultipleOf | None] = no_demand
    preferred_block_size: int | None = None
    rejects_empty_sizes: bool = False


def base_of(size: KernelBlockSize) -> int:
    """The tokens that a block must be a multiple of for this kernel block size."""
    return size.base if isinstance(size, MultipleOf) else size


def supports_block_size(backend: Backend, facts: Facts, block_size: int | None) -> bool:
    """Whether blocks of ``block_size`` tokens can be split into the backend's kernel blocks."""
    sizes = backend.kernel_block_sizes(facts, None)
    if not sizes:
        return not backend.rejects_empty_sizes
    return block_size is None or any(block_size % base_of(size) == 0 for size in sizes)


def preferred_block_size(backend: Backend, facts: Facts) -> int:
    """The block size that the backend alone would choose."""
    if backend.preferred_block_size is not None:
        return backend.preferred_block_size
    if supports_block_size(backend, facts, DEFAULT_BLOCK_SIZE):
        return DEFAULT_BLOCK_SIZE
    return min(base_of(size) for size in backend.kernel_block_sizes(facts, None))


def invalid_reasons(backend: Backend, request: BackendRequest, facts: Facts) -> tuple[str, ...]:
    """Why the backend cannot serve the request, in the engine's words; empty if it can."""
    checks = (*_storage_checks(backend, request, facts), *_feature_checks(backend, request, facts))
    reasons = [words for failed, words in checks if failed]
    objection = backend.objection(request, facts)
    return (*reasons, objection) if objection is not None else tuple(reasons)


def _storage_checks(
    backend: Backend, request: BackendRequest, facts: Facts
) -> tuple[tuple[bool, str], ...]:
    return (
        (not backend.head_size(request.head_size, facts), "head_size not supported"),
        (request.dtype not in backend.dtypes, "dtype not supported"),
        (
            not backend.kv_cache_dtype(request.kv_cache_dtype, facts),
            "kv_cache_dtype not supported",
        ),
        (
            not supports_block_size(backend, facts, request.block_size),
            "block_size not supported",
        ),
    )


def _feature_checks(
    backend: Backend, request: BackendRequest, facts: Facts
) -> tuple[tuple[bool, str], ...]:
    return (
        (
            request.use_mm_prefix and not backend.mm_prefix(facts),
            "partial multimodal token full attention not supported",
        ),
        (request.use_mla and not backend.mla, "MLA not supported"),
        (backend.mla and not request.use_mla, "non-MLA not supported"),
        (request.has_sink and not backend.sink(facts), "attention sinks not supported"),
        (request.use_sparse and not backend.sparse, "sparse not supported"),
        (backend.sparse and not request.use_sparse, "non-sparse not supported"),
        (
            request.use_per_head_quant_scales and not backend.per_head_quant_scales(facts),
            "per-head quant scales not supported",
        ),
        (not backend.capability(facts.capability), "compute capability not supported"),
        (
            request.attn_type not in backend.attention_types,
            f"attention type {request.attn_type} not supported",
        ),
        (
            request.has_sliding_window and not backend.sliding_window,
            "sliding window not supported",
        ),
        (request.use_rswa and not backend.rswa, "R-SWA not supported"),
        (
            request.use_non_causal and not backend.non_causal,
            "non-causal attention not supported",
        ),
        (
            request.use_mla
            and request.use_non_causal
            and request.use_dcp
            and not backend.non_causal_dcp,
            "non-causal MLA attention with DCP not supported",
        ),
        (
            request.use_batch_invariant and not backend.batch_invariance,
            "batch invariance not supported",
        ),
        (request.use_pcp and not backend.pcp, "PCP not supported"),
        (request.use_dcp and not backend.dcp, "DCP not supported"),
    )
