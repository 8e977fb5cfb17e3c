"""A layer's spec: what the layer class builds and what its backend makes of it.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/attention/{attention,chunked_local_attention,
prefill_prefix_lm_attention}.py:get_kv_cache_spec``, ``vllm/v1/worker/utils.py:
customize_attention_spec`` and Inkling's layers in ``vllm/models/inkling/nvidia``.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TypedDict

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks, largest_kernel_block
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.quant_modes import cache_elements, kv_quant_mode
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.models.shape import AttentionKind, AttentionLayer
from kvplan_cli.specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    MultipleOf,
    RSWASpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
    SpecError,
)
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """What a layer stores on this rank.

    num_kv_heads: of one rank. kv_cache_dtype: the layer's own, after any skip list.
    """

    layer: AttentionLayer
    backend: Backend
    num_kv_heads: int
    kv_cache_dtype: str
    model_dtype: DType

    def spec(self, blocks: StageBlocks, facts: Facts) -> AttentionSpec | None:
        """The layer's spec; None where it keeps no cache of its own."""
        return layer_spec(self.layer, self, blocks, facts)


def layer_spec(
    layer: AttentionLayer, storage: Storage, blocks: StageBlocks, facts: Facts
) -> AttentionSpec | None:
    """The layer's spec; None where it keeps no cache of its own.

    facts: without the engine's config, which is not in scope when specs are collected.
    """
    if layer.kv_sharing_target is not None or layer.kind is AttentionKind.ENCODER_ONLY:
        return None
    plain = plain_spec(layer, storage, blocks.block_size)
    if not isinstance(plain, SlidingWindowSpec) or layer.own_cache is not None:
        return packed(plain, storage.backend, facts)
    own = _with_own_blocks(plain, storage.backend, blocks, facts)
    if layer.states_per_token > 1:
        own = _pooled(own, layer.states_per_token)
    made = packed(own, storage.backend, facts)
    try:
        return replace(made, page_size_padded=blocks.skip_page_size_padded)
    except SpecError as error:
        # The engine asserts without words when it first asks for the page.
        raise model_refusal("AssertionError", "") from error


def packed(spec: AttentionSpec, backend: Backend, facts: Facts) -> AttentionSpec:
    """The backend's form of the spec.

    Blocks of a backend with fixed kernel blocks only are split into these, which packed
    blocks must keep whole.
    """
    spec = backend.packing(spec)
    alignment = backend.stride_alignment(spec, facts)
    if alignment is not None:
        spec = replace(spec, block_stride_alignment=alignment)
    sizes = backend.kernel_block_sizes(facts, spec)
    fixed = [size for size in sizes if isinstance(size, int)]
    if spec.block_stride_alignment is None and sizes and len(fixed) == len(sizes):
        return replace(spec, block_stride_alignment=MultipleOf(max(fixed)))
    return spec


class _Stored(TypedDict):
    """What the specs of all kinds take."""

    block_size: int
    num_kv_heads: int
    head_size: int
    dtype: DType
    kv_quant_mode: KVQuantMode


def plain_spec(layer: AttentionLayer, storage: Storage, block_size: int) -> AttentionSpec:
    """The spec that the layer class itself builds, before its backend has a word."""
    own = layer.own_cache
    kv_cache_dtype = "auto" if own and own.model_dtype else storage.kv_cache_dtype
    dtype = cache_elements(kv_cache_dtype, storage.model_dtype)
    unmarked = own is not None and not own.quantized
    quant_mode = KVQuantMode.NONE if unmarked else kv_quant_mode(kv_cache_dtype)
    if own and own.block_size is not None:
        block_size = own.block_size
    stored = _Stored(
        block_size=block_size,
        num_kv_heads=storage.num_kv_heads,
        head_size=layer.head_size,
        dtype=dtype,
        kv_quant_mode=quant_mode,
    )
    return _spec_of_kind(layer, stored)


def _spec_of_kind(layer: AttentionLayer, stored: _Stored) -> AttentionSpec:
    head_size_v = layer.head_size_v
    match layer.kind:
        case AttentionKind.CHUNKED:
            chunk = layer.attention_chunk_size
            assert chunk is not None, "a chunked layer has a chunk size"
            return ChunkedLocalAttentionSpec(**stored, attention_chunk_size=chunk)
        case AttentionKind.CROSS:
            return CrossAttentionSpec(**stored)
        case AttentionKind.REFERENCE_SLIDING:
            window = layer.rswa_window
            assert window is not None, "a layer with a reference window has one"
            return RSWASpec(**stored, head_size_v=head_size_v, rswa_window=window)
        case AttentionKind.STATIC_SINK:
            return SinkFullAttentionSpec(**stored, head_size_v=head_size_v, sink_len=layer.sink_len)
        case AttentionKind.SLIDING:
            window = layer.sliding_window
            assert window is not None, "a sliding layer has a window"
            return SlidingWindowSpec(**stored, head_size_v=head_size_v, sliding_window=window)
        case AttentionKind.FULL | AttentionKind.ENCODER_ONLY:
            return FullAttentionSpec(**stored, head_size_v=head_size_v, non_causal=layer.non_causal)


def _pooled(spec: SlidingWindowSpec, states: int) -> SlidingWindowSpec:
    """The window counts tokens of the language part, of which each has so many states.

    Source: vLLM 0.33.0 ``models/whisper_causal.py:WhisperCausalAttentionWithBlockPooling``.
    """
    window = cdiv(spec.sliding_window, states) + 1  # the last block may hold one state only
    return replace(spec, tokens_per_state=Fraction(1, states), sliding_window=window)


def _with_own_blocks(
    spec: SlidingWindowSpec, backend: Backend, blocks: StageBlocks, facts: Facts
) -> SlidingWindowSpec:
    """A sliding layer takes the largest kernel block whose page fits the primary page."""
    one_token = backend.packing(replace(spec, block_size=1))
    budget = blocks.skip_page_size_padded or one_token.unpadded_page_size_bytes * blocks.block_size
    return replace(spec, block_size=largest_kernel_block(backend, facts, one_token, budget))
