"""Specs of layers that keep every token: full attention, latent vectors, and their kin.

Source of names and rules: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py``.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Self

from kvplan_cli.specs.attention import (
    ATTENTION_FIELDS,
    AttentionSpec,
    raise_to_alignment,
    same,
    single,
)
from kvplan_cli.specs.base import KVCacheSpec, MergeFailure, RequestLimits
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass


class SparseCacheRole(Enum):
    """What a sparse MLA layer's cache holds."""

    SPARSE = "sparse"
    INDEXER = "indexer"


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttentionSpec(AttentionSpec):
    """Every token's key and value are kept.

    sliding_window, attention_chunk_size: what the layer computes with although its cache
    keeps all tokens. non_causal: the layer attends both ways (prefix LM).
    """

    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    non_causal: bool = False

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        if self.dcp_sharded and limits.decode_context_parallel_size > 1:
            max_model_len = cdiv(max_model_len, limits.decode_context_parallel_size)
        return cdiv(max_model_len, self.block_size)

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        # Every full-attention kind is registered with one base: FullAttentionSpec.
        return isinstance(other, FullAttentionSpec)

    @classmethod
    def merged(cls, specs: tuple[Self, ...]) -> KVCacheSpec | MergeFailure:
        if not all(isinstance(spec, FullAttentionSpec) for spec in specs):
            return MergeFailure.DIFFERENT
        if any(isinstance(spec, MLAAttentionSpec) for spec in specs):
            return MergeFailure.DIFFERENT
        window = single({s.sliding_window for s in specs if s.sliding_window is not None})
        chunk = single(
            {s.attention_chunk_size for s in specs if s.attention_chunk_size is not None}
        )
        if isinstance(window, MergeFailure):
            return window
        if isinstance(chunk, MergeFailure):
            return chunk
        if not same(specs, ATTENTION_FIELDS) or (window is not None and chunk is not None):
            return MergeFailure.DIFFERENT
        return replace(
            specs[0],
            sliding_window=window,
            attention_chunk_size=chunk,
            non_causal=any(spec.non_causal for spec in specs),
            is_draft=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MLAAttentionSpec(FullAttentionSpec):
    """One latent vector a token and layer; there is no separate value.

    cache_dtype_str: the engine's name of a packed content. topk_buffer_width: sparse top-k.
    alignment: the page is raised to its multiple. model_version, cache_role,
    is_index_group_leader: how sparse layers share an indexer. non_causal_multi_token_decode:
    set by drafters that decode several tokens without causality.
    """

    head_size_v: int = 0
    cache_dtype_str: str | None = None
    topk_buffer_width: int | None = None
    alignment: int | None = None
    model_version: str | None = None
    cache_role: SparseCacheRole = SparseCacheRole.SPARSE
    is_index_group_leader: bool = False
    non_causal_multi_token_decode: bool = False

    def __post_init__(self) -> None:
        raise_to_alignment(self, self.alignment)
        AttentionSpec.__post_init__(self)

    @classmethod
    def merged(cls, specs: tuple[Self, ...]) -> KVCacheSpec | MergeFailure:
        if not all(isinstance(spec, MLAAttentionSpec) for spec in specs):
            return MergeFailure.DIFFERENT
        mla_fields = (
            "cache_dtype_str",
            "topk_buffer_width",
            "model_version",
            "cache_role",
            "is_index_group_leader",
        )
        first = specs[0]
        # The engine's merge leaves head_size_v at its default, so only 0 can merge.
        if first.head_size_v != 0 or not same(specs, ATTENTION_FIELDS + mla_fields):
            return MergeFailure.DIFFERENT
        return replace(
            first,
            alignment=None,
            sliding_window=None,
            attention_chunk_size=None,
            non_causal=False,
            non_causal_multi_token_decode=any(s.non_causal_multi_token_decode for s in specs),
            is_draft=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStateCacheSpec(MLAAttentionSpec):
    """Hidden states kept for extraction; never grouped with attention layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RSWASpec(FullAttentionSpec):
    """Reference sliding window: the prompt and the last ``rswa_window`` generated tokens."""

    rswa_window: int

    @classmethod
    def merged(cls, specs: tuple[Self, ...]) -> KVCacheSpec | MergeFailure:
        if not all(isinstance(spec, RSWASpec) for spec in specs):
            return MergeFailure.DIFFERENT
        if len({spec.rswa_window for spec in specs}) != 1:
            return MergeFailure.DIFFERENT
        return FullAttentionSpec.merged(specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention with ``sink_len`` learned sink tokens in front."""

    sink_len: int | None = None

    @classmethod
    def merged(cls, specs: tuple[Self, ...]) -> KVCacheSpec | MergeFailure:
        merged = FullAttentionSpec.merged(specs)
        # The engine's merge leaves tokens_per_state at its default, so only 1 can merge.
        if isinstance(merged, AttentionSpec) and merged.tokens_per_state != 1:
            return MergeFailure.DIFFERENT
        return merged
