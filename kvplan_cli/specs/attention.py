"""Specs of attention layers: a page of heads, states and content for each block.

Source of names and rules: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py``.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from fractions import Fraction
from typing import Self

from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.specs.base import (
    KVCacheSpec,
    MergeFailure,
    RequestLimits,
    SpecError,
    states_in_block,
)
from kvplan_cli.units import cdiv, round_up
from kvplan_cli.values import dataclass


class SparseCacheRole(Enum):
    """What a sparse MLA layer's cache holds."""

    SPARSE = "sparse"
    INDEXER = "indexer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec(KVCacheSpec):
    """Keys and values of one attention layer on one rank.

    num_kv_heads: KV heads on this rank. head_size, head_size_v: elements of a key and of a
    value (-1: as the key). page_size_padded: bytes the page is raised to. num_head_slots:
    head slots of a page where they are not the KV heads. state_content_bytes: bytes of one
    state where it is not key plus value. tokens_per_state: tokens that one stored state
    covers; a fraction below one for several states a token. max_tp_shards: distinct shards
    over tensor parallel ranks, None where the engine does not say.
    """

    dcp_sharded: bool = True
    num_kv_heads: int
    head_size: int
    dtype: DType
    head_size_v: int = -1
    kv_quant_mode: KVQuantMode = KVQuantMode.NONE
    page_size_padded: int | None = None
    num_head_slots: int | None = None
    state_content_bytes: int | None = None
    tokens_per_state: int | Fraction = 1
    max_tp_shards: int | None = None

    def __post_init__(self) -> None:
        if self.head_size_v == -1:
            object.__setattr__(self, "head_size_v", self.head_size)
        if self.num_kv_heads <= 0 or self.head_size <= 0 or self.head_size_v < 0:
            raise SpecError("num_kv_heads and head_size must be positive")
        if self.tokens_per_state <= 0:
            raise SpecError("tokens_per_state must be positive")
        self._check_padding()
        KVCacheSpec.__post_init__(self)

    def _check_padding(self) -> None:
        padded = self.page_size_padded
        if padded is not None and padded < self.unpadded_page_size_bytes:
            raise SpecError(
                f"page_size_padded {padded} is below the page's content "
                f"{self.unpadded_page_size_bytes}"
            )

    @property
    def num_heads(self) -> int:
        return self.num_kv_heads if self.num_head_slots is None else self.num_head_slots

    @property
    def states_per_block(self) -> int:
        return states_in_block(self.block_size, self.tokens_per_state)

    @property
    def state_content_size_bytes(self) -> int:
        if self.state_content_bytes is not None:
            return self.state_content_bytes
        return (self.head_size + self.head_size_v) * self.dtype.itemsize

    @property
    def unpadded_page_size_bytes(self) -> int:
        """The page's content in bytes."""
        return self.num_heads * self.states_per_block * self.state_content_size_bytes

    @property
    def padded_page(self) -> int | None:
        return self.page_size_padded

    def _page_size_bytes(self) -> int:
        if self.page_size_padded is not None:
            return self.page_size_padded
        return self.unpadded_page_size_bytes


# The fields that a merge of attention specs demands to be equal: all of AttentionSpec's.
_ATTENTION_FIELDS = (
    "block_size",
    "dcp_sharded",
    "block_stride_alignment",
    "num_kv_heads",
    "head_size",
    "dtype",
    "head_size_v",
    "kv_quant_mode",
    "page_size_padded",
    "num_head_slots",
    "state_content_bytes",
    "tokens_per_state",
    "max_tp_shards",
)


def _same(specs: tuple[KVCacheSpec, ...], names: tuple[str, ...]) -> bool:
    first = specs[0]
    return all(getattr(spec, name) == getattr(first, name) for spec in specs[1:] for name in names)


def _single(values: set[int]) -> int | MergeFailure | None:
    if len(values) > 1:
        return MergeFailure.CONFLICTING_WINDOWS
    return next(iter(values), None)


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
        window = _single({s.sliding_window for s in specs if s.sliding_window is not None})
        chunk = _single(
            {s.attention_chunk_size for s in specs if s.attention_chunk_size is not None}
        )
        if isinstance(window, MergeFailure):
            return window
        if isinstance(chunk, MergeFailure):
            return chunk
        if not _same(specs, _ATTENTION_FIELDS) or (window is not None and chunk is not None):
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
        _raise_to_alignment(self, self.alignment)
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
        if first.head_size_v != 0 or not _same(specs, _ATTENTION_FIELDS + mla_fields):
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


def _raise_to_alignment(spec: AttentionSpec, alignment: int | None) -> None:
    if alignment is None:
        return
    aligned = round_up(spec.unpadded_page_size_bytes, alignment)
    if aligned != spec.unpadded_page_size_bytes:
        object.__setattr__(spec, "page_size_padded", aligned)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    """Attention inside chunks of ``attention_chunk_size`` tokens."""

    attention_chunk_size: int

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        held = min(self.attention_chunk_size + limits.max_in_flight_tokens, max_model_len)
        return cdiv(held, self.block_size)

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        return (
            isinstance(other, ChunkedLocalAttentionSpec)
            and other.attention_chunk_size == self.attention_chunk_size
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowSpec(AttentionSpec):
    """Attention over the last ``sliding_window`` tokens.

    extra_retained_tokens: tokens kept below the window for drafters of several modules.
    """

    sliding_window: int
    extra_retained_tokens: int = 0

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        if self.dcp_sharded and limits.decode_context_parallel_size > 1:
            raise SpecError("DCP not support sliding window.")
        window = self.sliding_window - 1 + self.extra_retained_tokens
        held = min(window + limits.max_in_flight_tokens, max_model_len)
        # One more: the window need not begin at a block's first token.
        return cdiv(held, self.block_size) + 1

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        return isinstance(other, SlidingWindowSpec) and other.sliding_window == self.sliding_window


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowMLASpec(SlidingWindowSpec):
    """A sliding window of latent vectors.

    bounded_replay: the window is replayed instead of found again by prefix caching.
    """

    head_size_v: int = 0
    cache_dtype_str: str | None = None
    alignment: int | None = None
    model_version: str | None = None
    bounded_replay: bool = False

    def __post_init__(self) -> None:
        if self.model_version not in (None, "deepseek_v4"):
            raise SpecError(f"unsupported model_version {self.model_version!r}")
        _raise_to_alignment(self, self.alignment)
        AttentionSpec.__post_init__(self)

    @property
    def prefix_cacheable(self) -> bool:
        return not self.bounded_replay

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        return (
            isinstance(other, SlidingWindowMLASpec)
            and other.sliding_window == self.sliding_window
            and other.bounded_replay == self.bounded_replay
        )

    @classmethod
    def merged(cls, specs: tuple[Self, ...]) -> KVCacheSpec | MergeFailure:
        if not all(isinstance(spec, SlidingWindowMLASpec) for spec in specs):
            return MergeFailure.DIFFERENT
        names = (
            "cache_dtype_str",
            "tokens_per_state",
            "model_version",
            "sliding_window",
            "extra_retained_tokens",
            "bounded_replay",
            "block_stride_alignment",
            "dcp_sharded",
            "max_tp_shards",
        )
        if not _same(specs, names):
            return MergeFailure.DIFFERENT
        # The engine rebuilds the first spec and leaves these fields at their defaults.
        return replace(
            specs[0],
            head_size_v=0,
            kv_quant_mode=KVQuantMode.NONE,
            alignment=None,
            is_draft=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularBufferSpec(AttentionSpec):
    """One block a request for its whole life: a ring of ``block_size`` raw keys."""

    @property
    def prefix_cacheable(self) -> bool:
        return False

    @property
    def uses_slot_mapping(self) -> bool:
        return False

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        return 1

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        return isinstance(other, CircularBufferSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOnlyAttentionSpec(AttentionSpec):
    """An encoder's layer: nothing is cached."""

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttentionSpec(AttentionSpec):
    """A decoder's attention to encoder states, one for each encoder token."""

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        return cdiv(limits.max_num_encoder_input_tokens, self.block_size)

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        return isinstance(other, CrossAttentionSpec)
