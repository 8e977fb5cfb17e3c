"""Specs of layers that keep a part of the tokens: windows, chunks and rings.

Source of names and rules: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from kvplan_cli.dtypes import KVQuantMode
from kvplan_cli.specs.attention import AttentionSpec, raise_to_alignment, same
from kvplan_cli.specs.base import KVCacheSpec, MergeFailure, RequestLimits, SpecError
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass


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
        raise_to_alignment(self, self.alignment)
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
        if not same(specs, names):
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
