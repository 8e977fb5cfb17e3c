"""What every layer's cache has in common: a page a block, and what a request may hold.

Source of names and rules: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py``.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from enum import Enum
from fractions import Fraction
from typing import Self

from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass


class SpecError(ValueError):
    """A layer spec that contradicts itself, e.g. a padded page below its content."""


class MambaCacheMode(Enum):
    """How state layers keep their states for prefix caching."""

    NONE = "none"
    ALIGN = "align"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What bounds one request besides its length, the same for all layers.

    max_in_flight_tokens: tokens scheduled but not settled, over all concurrent batches.
    decode_context_parallel_size: ranks that share one sequence's tokens while decoding.
    max_num_encoder_input_tokens: encoder tokens of one step.
    mamba_cache_mode: the engine's resolved mode; it decides for all state layers.
    """

    max_in_flight_tokens: int
    decode_context_parallel_size: int = 1
    max_num_encoder_input_tokens: int = 0
    mamba_cache_mode: MambaCacheMode = MambaCacheMode.NONE


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """A stride alignment of whole kernel blocks of up to ``base`` tokens."""

    base: int


class MergeFailure(Enum):
    """Why specs are not one spec. An answer, not a crash."""

    DIFFERENT = "All layers in the same KV cache group must be the same."
    CONFLICTING_WINDOWS = (
        "All attention layers in the same KV cache group must have the same window size."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheSpec:
    """How one layer stores its cache.

    block_size: tokens in a block.
    dcp_sharded: whether decode context parallelism spreads the tokens over ranks.
    block_stride_alignment: bytes the distance of two blocks must be a multiple of, or
        ``MultipleOf`` kernel blocks; None for no demand.
    is_draft: a draft model owns the layer. Not part of equality: it never changes grouping.
    page_size_bytes: bytes that this layer needs for one block.
    """

    block_size: int
    dcp_sharded: bool = False
    block_stride_alignment: int | MultipleOf | None = None
    is_draft: bool = field(default=False, compare=False)
    page_size_bytes: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.block_size <= 0:
            raise SpecError(f"block_size must be positive, got {self.block_size}")
        alignment = self.block_stride_alignment
        if isinstance(alignment, int) and alignment <= 0:
            raise SpecError("block_stride_alignment must be positive")
        object.__setattr__(self, "page_size_bytes", self._page_size_bytes())

    def _page_size_bytes(self) -> int:
        raise NotImplementedError

    @property
    def num_heads(self) -> int:
        """Head slots of a page."""
        raise NotImplementedError

    @property
    def states_per_block(self) -> int:
        """Stored states of a page, a head slot."""
        raise NotImplementedError

    @property
    def state_content_size_bytes(self) -> int:
        """Bytes of one stored state of one head slot."""
        raise NotImplementedError

    @property
    def padded_page(self) -> int | None:
        """The padded page in bytes, or None where the page is its content."""
        return None

    @property
    def prefix_cacheable(self) -> bool:
        """Whether blocks of this layer can be found again by prefix caching."""
        return True

    @property
    def has_layer_views(self) -> bool:
        """Whether the engine views this layer's cache by heads, states and content."""
        return True

    @property
    def uses_slot_mapping(self) -> bool:
        """Whether the engine maps each token to a slot of this layer's cache."""
        return True

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        """The most blocks that one request of ``max_model_len`` tokens holds at a time."""
        raise NotImplementedError

    def max_memory_usage_bytes(self, max_model_len: int, limits: RequestLimits) -> int:
        """The most bytes that one request of ``max_model_len`` tokens holds at a time."""
        return self.max_blocks_per_request(max_model_len, limits) * self.page_size_bytes

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        """Whether ``other`` always needs as many token slots as this spec."""
        return isinstance(other, type(self))

    def stride_alignment_bytes(self) -> int:
        """``block_stride_alignment`` in bytes; 1 for no demand."""
        alignment = self.block_stride_alignment
        if not isinstance(alignment, MultipleOf):
            return alignment or 1
        kernel_block_size = math.gcd(alignment.base, self.block_size)
        if kernel_block_size == self.block_size:
            return 1
        return replace(self, block_size=kernel_block_size).page_size_bytes

    @classmethod
    def merged(cls, specs: tuple[Self, ...]) -> KVCacheSpec | MergeFailure:
        """One spec for a group of layers; ``specs`` are the group's distinct ones, in order."""
        return specs[0] if len(set(specs)) == 1 else MergeFailure.DIFFERENT


@dataclass(frozen=True, slots=True, kw_only=True)
class HiSparseHotSpec(KVCacheSpec):
    """A request's hot cache on the device, beside host-resident pages.

    page_size: bytes of one block of one layer. blocks_per_request: fixed for each request.
    """

    page_size: int
    blocks_per_request: int

    def _page_size_bytes(self) -> int:
        return self.page_size

    @property
    def prefix_cacheable(self) -> bool:
        return False

    @property
    def has_layer_views(self) -> bool:
        return False

    @property
    def uses_slot_mapping(self) -> bool:
        return False

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        return self.blocks_per_request


@dataclass(frozen=True, slots=True, kw_only=True)
class HiSparseResidentSpec(KVCacheSpec):
    """Device pages of host-backed layers for the tokens in flight; reclaimed afterwards."""

    page_size: int

    def _page_size_bytes(self) -> int:
        return self.page_size

    @property
    def prefix_cacheable(self) -> bool:
        return False

    @property
    def has_layer_views(self) -> bool:
        return False

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        return cdiv(min(limits.max_in_flight_tokens, max_model_len), self.block_size)


def states_in_block(block_size: int, tokens_per_state: int | Fraction) -> int:
    """Stored states that ``block_size`` tokens make."""
    return int(block_size // tokens_per_state)
