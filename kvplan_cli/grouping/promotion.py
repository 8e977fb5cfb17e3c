"""Local-attention layers that keep their cache like full attention.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``unify_hybrid_kv_cache_specs``,
``_promote_local_kv_cache_specs``, ``_try_get_full_allocation_fallback_groups``).
"""

from __future__ import annotations

from dataclasses import fields

from kvplan_cli.grouping.group import (
    KVCacheGroup,
    PlanWarning,
    RefusalKind,
    RefusedError,
    WarningKind,
    refuse,
)
from kvplan_cli.grouping.uniform import is_uniform_spec
from kvplan_cli.specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    HiddenStateCacheSpec,
    KVCacheSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)
from kvplan_cli.specs.bundle import LayerSpecs, UniformTypeKVCacheSpecs, is_uniform_type

# A field of a window that says nothing once every token keeps its block.
_WINDOW_ONLY_FIELD = "extra_retained_tokens"


def promote_if_hybrid(layers: LayerSpecs) -> tuple[LayerSpecs, tuple[PlanWarning, ...]]:
    """The layers as the engine stores them without its hybrid manager.

    Layers that decode context parallelism does not shard are promoted apart from the others.
    Raises: RefusedError when the result is not of one type.
    """
    warnings: list[PlanWarning] = []
    promoted = dict(layers)
    parts: dict[bool, dict[str, KVCacheSpec]] = {}
    for name, spec in layers.items():
        replicated = isinstance(spec, AttentionSpec) and not spec.dcp_sharded
        parts.setdefault(replicated, {})[name] = spec
    for part in parts.values():
        changed = promote(part)
        if changed != part:
            warnings.append(_HYBRID_MANAGER_DISABLED)
            promoted.update(changed)
    return promoted, tuple(warnings)


_HYBRID_MANAGER_DISABLED = PlanWarning(
    kind=WarningKind.HYBRID_MANAGER_DISABLED,
    message=(
        "Hybrid KV cache manager is disabled for this hybrid model, This means we do not "
        "enable any optimizations for saving KV cache memory (e.g., dropping the KV cache "
        "outside the sliding window). The compute of layers like sliding window is still saved."
    ),
)
_FULL_ALLOCATION = PlanWarning(
    kind=WarningKind.FULL_ALLOCATION_FALLBACK,
    message=(
        "KV cache page sizes cannot be unified; treating sliding-window layers as full "
        "attention for cache allocation. Sliding-window attention compute is unchanged."
    ),
)


def promote(layers: LayerSpecs) -> LayerSpecs:
    """Full-attention specs in place of local ones, where both kinds are present.

    Raises: RefusedError when the result is not of one type.
    """
    if _is_one_type(layers):
        return layers
    specs = {id(spec): spec for spec in layers.values()}
    kinds = specs.values()
    has_full = any(isinstance(spec, FullAttentionSpec) for spec in kinds)
    has_local = any(
        isinstance(spec, SlidingWindowSpec | ChunkedLocalAttentionSpec) for spec in kinds
    )
    if has_full and has_local:
        full_sizes = {spec.block_size for spec in kinds if isinstance(spec, FullAttentionSpec)}
        block_size = full_sizes.pop() if len(full_sizes) == 1 else None
        promoted = {key: _promoted(spec, block_size) for key, spec in specs.items()}
        layers = {name: promoted[id(spec)] for name, spec in layers.items()}
    if not _is_one_type(layers):
        raise refuse(
            RefusalKind.PROMOTION,
            "Failed to promote local KV cache specs to one unified type.",
        )
    return layers


def _is_one_type(layers: LayerSpecs) -> bool:
    return is_uniform_spec(layers) or is_uniform_type(layers)


def _promoted(spec: KVCacheSpec, full_block_size: int | None) -> KVCacheSpec:
    if isinstance(spec, SlidingWindowMLASpec):
        # The engine means to make it an MLA spec and stops at a field that one lacks.
        raise refuse(
            RefusalKind.PROMOTION,
            "MLAAttentionSpec.__init__() got an unexpected keyword argument 'bounded_replay'",
            "TypeError",
            "windows of latent vectors cannot be stored like full attention; leave the hybrid "
            "KV cache manager on",
        )
    if not isinstance(spec, SlidingWindowSpec | ChunkedLocalAttentionSpec):
        return spec
    block_size = full_block_size or spec.block_size
    padded = spec.page_size_padded
    if padded is not None:
        content = spec.unpadded_page_size_bytes * block_size // spec.block_size
        padded = max(padded, content)
    kept = {
        field.name: getattr(spec, field.name)
        for field in fields(spec)
        if field.init and field.name != _WINDOW_ONLY_FIELD
    }
    return FullAttentionSpec(**(kept | {"block_size": block_size, "page_size_padded": padded}))


def full_allocation_fallback(
    layers: LayerSpecs,
) -> tuple[tuple[KVCacheGroup, ...], tuple[PlanWarning, ...]] | None:
    """One group that allocates windows beside MLA like full attention; None if not possible."""
    kinds = {id(spec): spec for spec in layers.values()}.values()
    barred = (HiddenStateCacheSpec, SlidingWindowMLASpec, ChunkedLocalAttentionSpec)
    if any(isinstance(spec, barred) for spec in kinds):
        return None
    has_mla = any(isinstance(spec, MLAAttentionSpec) for spec in kinds)
    has_window = any(isinstance(spec, SlidingWindowSpec) for spec in kinds)
    if not (has_mla and has_window):
        return None
    try:
        promoted = promote(layers)
    except RefusedError as error:
        if error.refusal.kind is RefusalKind.PROMOTION:
            return None
        raise
    if not is_uniform_type(promoted):
        return None
    bundle = UniformTypeKVCacheSpecs(kv_cache_specs=promoted)
    group = KVCacheGroup(layer_names=tuple(promoted), spec=bundle)
    return (group,), (_FULL_ALLOCATION,)
