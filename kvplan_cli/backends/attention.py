"""An attention layer's way through the engine's construction: KV dtype, backend, refusals.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/attention/attention.py:Attention.__init__``
and its chunked, prefix-LM and encoder-only kin.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.capabilities import FLASH_ATTN_DIFFKV
from kvplan_cli.backends.construction import (
    Built,
    check_implementation,
    check_own_cache,
    check_pooling,
    check_regions,
)
from kvplan_cli.backends.divisibility import check_heads, rank_heads
from kvplan_cli.backends.layer_spec import Storage
from kvplan_cli.backends.model_rules import check_layer
from kvplan_cli.backends.request import AttentionType, BackendRequest
from kvplan_cli.backends.scope import BuildScope, layer_index
from kvplan_cli.backends.selection import backend_named, diff_kv_backend, select_backend
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, OwnCache


def attention_storage(scope: BuildScope, layer: AttentionLayer) -> Storage:
    """What the layer stores. Raises: EngineRefusalError, UnplannableError."""
    kv_cache_dtype = _kv_cache_dtype(scope, layer)
    tensor_parallel_size = scope.settings.tensor_parallel_size
    check_heads(scope.shape.architecture, layer, tensor_parallel_size)
    if layer.pinned_backend == "STEP5_DSA":
        check_regions(layer, kv_cache_dtype, scope.facts, scope.settings)
    _, num_kv_heads = rank_heads(layer, tensor_parallel_size)
    backend = _backend(scope, layer, kv_cache_dtype)
    if layer.own_cache is not None:
        check_own_cache(layer, scope.settings.dtype, tensor_parallel_size)
    else:
        built = Built(layer=layer, kv_cache_dtype=kv_cache_dtype, attn_type=_attention_type(layer))
        check_implementation(backend, built, scope.facts)
        check_pooling(layer, backend)
        check_layer(scope.shape.architecture, layer, backend, scope.settings)
        scope.check_scales(kv_cache_dtype)
    return Storage(
        layer=layer,
        backend=backend,
        num_kv_heads=num_kv_heads,
        kv_cache_dtype=kv_cache_dtype,
        model_dtype=scope.settings.dtype,
    )


def attention_variant(layer: AttentionLayer) -> str:
    """How the engine wraps the layer's backend, empty where it does not."""
    if layer.kind is AttentionKind.CHUNKED:
        return f"chunked_{layer.attention_chunk_size}"
    if layer.kind is AttentionKind.ENCODER_ONLY or layer.non_causal:
        return "bidirectional"
    if layer.kind is AttentionKind.CROSS:
        return "cross"
    if layer.states_per_token > 1:
        return f"pooled_{layer.states_per_token}"
    if layer.kind is AttentionKind.STATIC_SINK:
        return "static_sink"
    return ""


def _kv_cache_dtype(scope: BuildScope, layer: AttentionLayer) -> str:
    if layer.ignores_cache_config:
        return "auto"
    if not scope.skipped or layer.own_cache is not None:
        return scope.settings.cache_dtype
    sliding = layer.sliding_window is not None and "sliding_window" in scope.skipped
    skip = sliding or str(layer_index(layer.name)) in scope.skipped
    return "auto" if skip else scope.settings.cache_dtype


def _backend(scope: BuildScope, layer: AttentionLayer, kv_cache_dtype: str) -> Backend:
    if layer.own_cache is not None:
        return _own_backend(scope, layer.own_cache, kv_cache_dtype)
    if layer.pinned_backend is not None:
        return backend_named(layer.pinned_backend)
    if layer.kind is AttentionKind.STATIC_SINK:
        return FLASH_ATTN_DIFFKV
    if layer.head_size_v != layer.head_size:
        return diff_kv_backend(
            scope.facts,
            scope.attention.backend,
            head_size=layer.head_size,
            head_size_v=layer.head_size_v,
            has_sink=layer.has_sink,
        )
    request = _request(scope, layer, kv_cache_dtype)
    return select_backend(request, scope.facts, scope.attention.backend)


def _own_backend(scope: BuildScope, own: OwnCache, kv_cache_dtype: str) -> Backend:
    if own.topk_blocks is None:
        return backend_named(own.backend)
    # Imported rarely: few models attend to blocks.
    from kvplan_cli.backends.mla.sparse_blocks import sparse_block_backend

    return sparse_block_backend(scope.facts, kv_cache_dtype, own.topk_blocks)


def _request(scope: BuildScope, layer: AttentionLayer, kv_cache_dtype: str) -> BackendRequest:
    request = replace(scope.plain_request(layer.head_size), attn_type=_attention_type(layer))
    if layer.ignores_cache_config:
        request = replace(request, kv_cache_dtype=kv_cache_dtype)
    if attention_variant(layer):
        # Wrapped backends are selected before skip list, sinks and masks are looked at.
        return request
    return replace(
        request,
        kv_cache_dtype=kv_cache_dtype,
        has_sink=layer.has_sink,
        use_mm_prefix=scope.config.mm_prefix_lm,
        use_per_head_quant_scales=scope.kv_cache_scheme.get("strategy") == "attn_head",
        has_sliding_window=layer.sliding_window is not None,
    )


def _attention_type(layer: AttentionLayer) -> AttentionType:
    if layer.kind is AttentionKind.ENCODER_ONLY:
        return AttentionType.ENCODER_ONLY
    if layer.kind is AttentionKind.CROSS:
        return AttentionType.ENCODER_DECODER
    return AttentionType.DECODER
