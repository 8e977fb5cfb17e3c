"""What attention layers share: a page of heads, states and content for each block.

Source of names and rules: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py``.
"""

from __future__ import annotations

from fractions import Fraction

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
ATTENTION_FIELDS = (
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


def same(specs: tuple[KVCacheSpec, ...], names: tuple[str, ...]) -> bool:
    """Whether these fields are equal in all specs."""
    first = specs[0]
    return all(getattr(spec, name) == getattr(first, name) for spec in specs[1:] for name in names)


def single(values: set[int]) -> int | MergeFailure | None:
    """The one value of a set, None for none; several windows conflict."""
    if len(values) > 1:
        return MergeFailure.CONFLICTING_WINDOWS
    return next(iter(values), None)


def raise_to_alignment(spec: AttentionSpec, alignment: int | None) -> None:
    """Pad the page of a spec in the making to a multiple of ``alignment`` bytes."""
    if alignment is None:
        return
    aligned = round_up(spec.unpadded_page_size_bytes, alignment)
    if aligned != spec.unpadded_page_size_bytes:
        object.__setattr__(spec, "page_size_padded", aligned)


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
