"""Layer specs: pages, needs, merging, and what contradicts itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.specs import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    EncoderOnlyAttentionSpec,
    FullAttentionSpec,
    HiSparseHotSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    MambaCacheMode,
    MambaSpec,
    MergeFailure,
    MLAAttentionSpec,
    MultipleOf,
    RequestLimits,
    RSWASpec,
    SinkFullAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    SpecError,
)
from kvplan_cli.specs.bundle import merge_specs

BASE: dict[str, Any] = {
    "block_size": 16,
    "num_kv_heads": 8,
    "head_size": 128,
    "dtype": DType.BFLOAT16,
}
LATENT: dict[str, Any] = BASE | {"num_kv_heads": 1, "head_size": 576}
FULL = FullAttentionSpec(**BASE)
STATE = MambaSpec(
    block_size=16, shapes=((3, 1024), (8, 64, 128)), dtypes=(DType.BFLOAT16, DType.FLOAT32)
)


@pytest.mark.parametrize(
    ("spec", "page"),
    [
        (FULL, 8 * 16 * 256 * 2),
        (FullAttentionSpec(**BASE, head_size_v=64), 8 * 16 * 192 * 2),
        (replace(FULL, num_head_slots=2), 2 * 16 * 256 * 2),
        (replace(FULL, state_content_bytes=100), 8 * 16 * 100),
        (replace(FULL, page_size_padded=1 << 20), 1 << 20),
        (replace(FULL, tokens_per_state=4), 8 * 4 * 256 * 2),
        (replace(FULL, tokens_per_state=Fraction(1, 4)), 8 * 64 * 256 * 2),
        (MLAAttentionSpec(**LATENT), 16 * 576 * 2),
        # The page is raised to a multiple of its alignment; a page that fits stays.
        (MLAAttentionSpec(**LATENT, alignment=576), 18432),
        (MLAAttentionSpec(**LATENT, alignment=1000), 19000),
        (SlidingWindowMLASpec(**LATENT, sliding_window=128, alignment=1000), 19000),
        (STATE, 3 * 1024 * 2 + 8 * 64 * 128 * 4),
        (replace(STATE, page_size_padded=1 << 20), 1 << 20),
        (HiSparseHotSpec(block_size=64, page_size=41984, blocks_per_request=96), 41984),
    ],
)
def test_page(spec: KVCacheSpec, page: int) -> None:
    assert spec.page_size_bytes == page


LIMITS = RequestLimits(max_in_flight_tokens=16384, max_num_encoder_input_tokens=1500)
SHARDED = replace(LIMITS, decode_context_parallel_size=4)
ALIGNED = replace(LIMITS, mamba_cache_mode=MambaCacheMode.ALIGN)


@pytest.mark.parametrize(
    ("spec", "length", "limits", "blocks"),
    [
        (FULL, 131072, LIMITS, 8192),
        (FULL, 131073, LIMITS, 8193),
        (FULL, 131073, SHARDED, 2049),
        (replace(FULL, dcp_sharded=False), 131073, SHARDED, 8193),
        # Window less one, tokens in flight, one block more for an uneven beginning.
        (SlidingWindowSpec(**BASE, sliding_window=1024), 131072, LIMITS, 1088 + 1),
        (SlidingWindowSpec(**BASE, sliding_window=1024), 100, LIMITS, 7 + 1),
        (
            SlidingWindowSpec(**BASE, sliding_window=1024, extra_retained_tokens=2),
            131072,
            LIMITS,
            1089 + 1,
        ),
        (ChunkedLocalAttentionSpec(**BASE, attention_chunk_size=8192), 131072, LIMITS, 1536),
        (ChunkedLocalAttentionSpec(**BASE, attention_chunk_size=8192), 100, LIMITS, 7),
        (STATE, 131072, LIMITS, 1),
        (replace(STATE, num_speculative_blocks=3), 131072, LIMITS, 4),
        (replace(STATE, num_speculative_blocks=3), 131072, ALIGNED, 5),
        (replace(STATE, num_prefill_checkpoint_blocks=2), 1, ALIGNED, 4),
        (replace(STATE, num_prefill_checkpoint_blocks=2), 1, LIMITS, 1),
        (CircularBufferSpec(**BASE), 131072, LIMITS, 1),
        (CrossAttentionSpec(**BASE), 131072, LIMITS, 94),
        (EncoderOnlyAttentionSpec(**BASE), 131072, LIMITS, 0),
        (HiSparseHotSpec(block_size=64, page_size=1, blocks_per_request=96), 1, LIMITS, 96),
        (HiSparseResidentSpec(block_size=64, page_size=1), 131072, LIMITS, 256),
        (HiSparseResidentSpec(block_size=64, page_size=1), 100, LIMITS, 2),
    ],
)
def test_need(spec: KVCacheSpec, length: int, limits: RequestLimits, blocks: int) -> None:
    assert spec.max_blocks_per_request(length, limits) == blocks
    assert spec.max_memory_usage_bytes(length, limits) == blocks * spec.page_size_bytes


def test_a_sharded_window_is_an_error() -> None:
    window = SlidingWindowSpec(**BASE, sliding_window=128)
    with pytest.raises(SpecError, match="DCP not support sliding window"):
        window.max_blocks_per_request(100, SHARDED)


@pytest.mark.parametrize(
    ("alignment", "stride"),
    # A kernel block that is the whole block asks for nothing.
    [(None, 1), (4096, 4096), (MultipleOf(16), 1), (MultipleOf(8), 32768), (MultipleOf(12), 16384)],
)
def test_stride_alignment(alignment: int | MultipleOf | None, stride: int) -> None:
    assert replace(FULL, block_stride_alignment=alignment).stride_alignment_bytes() == stride


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_size": 0},
        {"num_kv_heads": 0},
        {"head_size": -1},
        {"tokens_per_state": 0},
        {"page_size_padded": 100},
        {"block_stride_alignment": 0},
    ],
)
def test_contradictions(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        FullAttentionSpec(**(BASE | wrong))


def test_state_contradictions() -> None:
    with pytest.raises(SpecError, match="pair up"):
        replace(STATE, dtypes=(DType.BFLOAT16,))
    with pytest.raises(SpecError, match="below the states"):
        replace(STATE, page_size_padded=1)
    with pytest.raises(SpecError, match="model_version"):
        SlidingWindowMLASpec(**LATENT, sliding_window=128, model_version="deepseek_v9")


WINDOWED = replace(FULL, sliding_window=128)
CHUNKED = replace(FULL, attention_chunk_size=2048)


@pytest.mark.parametrize(
    ("specs", "merged"),
    [
        ((FULL, FULL), FULL),
        ((FULL, WINDOWED), WINDOWED),
        ((FULL, WINDOWED, replace(FULL, sliding_window=256)), MergeFailure.CONFLICTING_WINDOWS),
        ((CHUNKED, WINDOWED), MergeFailure.DIFFERENT),
        ((FULL, replace(FULL, num_kv_heads=4)), MergeFailure.DIFFERENT),
        ((FULL, replace(FULL, non_causal=True)), replace(FULL, non_causal=True)),
        ((FULL, MLAAttentionSpec(**LATENT)), MergeFailure.DIFFERENT),
        ((FULL, SlidingWindowSpec(**BASE, sliding_window=128)), MergeFailure.DIFFERENT),
        ((RSWASpec(**BASE, rswa_window=8), FULL), MergeFailure.DIFFERENT),
        # The first layer's class decides: a full layer takes a kin, its kin not a full one.
        ((FULL, RSWASpec(**BASE, rswa_window=8)), FULL),
        (
            (RSWASpec(**BASE, rswa_window=8), RSWASpec(**BASE, rswa_window=9)),
            MergeFailure.DIFFERENT,
        ),
        (
            (replace(FULL, is_draft=True), FULL),
            FULL,
        ),
        ((STATE, STATE), STATE),
        ((STATE, replace(STATE, num_speculative_blocks=1)), MergeFailure.DIFFERENT),
        (
            (SinkFullAttentionSpec(**BASE, sink_len=4, tokens_per_state=2),),
            MergeFailure.DIFFERENT,
        ),
    ],
)
def test_merge(specs: tuple[KVCacheSpec, ...], merged: KVCacheSpec | MergeFailure) -> None:
    assert merge_specs(specs) == merged


def test_latent_merge_keeps_a_drafters_mark() -> None:
    plain = MLAAttentionSpec(**LATENT)
    marked = replace(plain, non_causal_multi_token_decode=True)
    assert merge_specs((plain, marked)) == marked


def test_windows_of_latent_vectors_merge_by_their_window_alone() -> None:
    """The engine takes the first one's heads; the vectors rely on it."""
    first = SlidingWindowMLASpec(**LATENT, sliding_window=128)
    assert merge_specs((first, replace(first, num_kv_heads=2))) == first
    assert merge_specs((first, replace(first, sliding_window=256))) is MergeFailure.DIFFERENT


@pytest.mark.parametrize(
    ("first", "other", "uniform"),
    [
        (FULL, MLAAttentionSpec(**LATENT), True),
        (MLAAttentionSpec(**LATENT), FULL, True),
        (FULL, STATE, False),
        (
            SlidingWindowSpec(**BASE, sliding_window=128),
            SlidingWindowMLASpec(**LATENT, sliding_window=128),
            True,
        ),
        (
            SlidingWindowMLASpec(**LATENT, sliding_window=128),
            SlidingWindowSpec(**BASE, sliding_window=128),
            False,
        ),
        (STATE, replace(STATE, tp_replicated=True), False),
        (CrossAttentionSpec(**BASE), FULL, False),
    ],
)
def test_uniform(first: KVCacheSpec, other: KVCacheSpec, uniform: bool) -> None:
    assert first.is_uniform_with(other) is uniform
