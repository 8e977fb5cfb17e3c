"""Block sizes: the worker's, and a sliding layer's own (values of vLLM 0.33.0)."""

from __future__ import annotations

import pytest

from kvplan_cli.backends.block_size import common_block_size, largest_kernel_block, stage_blocks
from kvplan_cli.backends.selection import backend_named
from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.specs import AttentionSpec, FullAttentionSpec, SlidingWindowSpec
from tests.backends.builders import facts, layer, plan, sliding


@pytest.mark.parametrize(
    ("card", "head_size", "cache_dtype", "mm_prefix", "block_size"),
    [
        ("H100", 128, "auto", False, 16),
        ("H100", 512, "auto", False, 16),
        ("H100", 512, "fp8", False, 64),
        ("H100", 256, "auto", True, 16),
        ("B200", 128, "auto", False, 16),
        ("B200", 256, "auto", True, 64),
    ],
)
def test_the_backend_may_want_larger_blocks(
    card: str, head_size: int, cache_dtype: str, mm_prefix: bool, block_size: int
) -> None:
    built = layer(head_size=head_size, mm_prefix=mm_prefix)
    assert plan(built, card=card, cache_dtype=cache_dtype).block_size == block_size


@pytest.mark.parametrize("block_size", [16, 32, 48, 64, 128])
def test_the_users_block_size_wins_where_a_kernel_takes_it(block_size: int) -> None:
    assert plan(layer(), block_size=block_size).block_size == block_size


def test_blackwells_kernel_for_head_size_256_takes_pages_of_128() -> None:
    built = layer(head_size=256)
    answer = plan(built, card="B200", attention_backend="FLASH_ATTN")
    assert answer.block_size == 128


def test_backends_agree_on_the_smallest_common_block() -> None:
    wide = facts(head_size=512, cache_dtype="fp8")
    pair = [backend_named("FLASHINFER"), backend_named("FLASH_ATTN")]
    assert common_block_size(pair, wide) == 64
    assert (
        stage_blocks(
            [], wide, requested=None, model_dtype=DType.BFLOAT16, skips_layers=False
        ).block_size
        == 16
    )


def test_a_sliding_layer_takes_the_largest_kernel_block_of_its_own() -> None:
    # Twice the head size, half the tokens: FlashInfer takes 16, 32 and 64.
    backend, card = backend_named("FLASHINFER"), facts("B200").without_config()
    one_token = SlidingWindowSpec(
        block_size=1, num_kv_heads=4, head_size=128, dtype=DType.BFLOAT16, sliding_window=128
    )
    page = one_token.page_size_bytes
    assert largest_kernel_block(backend, card, one_token, page * 48) == 32
    assert largest_kernel_block(backend, card, one_token, page * 4096) == 64
    assert largest_kernel_block(backend, card, one_token, page) == 16
    flash = backend_named("FLASH_ATTN")
    assert largest_kernel_block(flash, facts().without_config(), one_token, page * 55) == 48


def attention_specs(*layers: object, **changes: object) -> list[AttentionSpec]:
    stages = plan(*layers, **changes).stages  # type: ignore[arg-type]
    return [spec for spec in stages[0].values() if isinstance(spec, AttentionSpec)]


def test_skipped_sliding_layers_pad_to_the_quantized_page() -> None:
    """gpt-oss with --kv-cache-dtype-skip-layers 0: blocks of 32 FP8 tokens, 16 plain ones."""
    heads = {"num_kv_heads": 8, "num_attention_heads": 64, "head_size": 64}
    skipped, full, window = attention_specs(
        sliding(0, 128, **heads),
        layer(1, **heads),
        sliding(2, 128, **heads),
        cache_dtype="fp8",
        args=EngineArgs(kv_cache_dtype_skip_layers=("0",)),
    )
    assert [spec.block_size for spec in (skipped, full, window)] == [16, 32, 32]
    assert {spec.page_size_bytes for spec in (skipped, full, window)} == {32768}
    assert [spec.page_size_padded for spec in (skipped, full, window)] == [32768, None, 32768]
    assert skipped.dtype is DType.BFLOAT16


def test_packed_caches_leave_both_ends_plain() -> None:
    specs = attention_specs(*map(layer, range(6)), cache_dtype="turboquant_4bit_nc")
    assert [spec.dtype is DType.BFLOAT16 for spec in specs] == [True] * 2 + [False] * 2 + [True] * 2
    assert all(isinstance(spec, FullAttentionSpec) for spec in specs)
    assert [spec.block_size for spec in specs] == [32] * 6


def test_all_sliding_layers_can_be_skipped_by_their_kind() -> None:
    specs = attention_specs(
        sliding(0),
        layer(1),
        cache_dtype="fp8",
        args=EngineArgs(kv_cache_dtype_skip_layers=("sliding_window",)),
    )
    assert [spec.dtype for spec in specs] == [DType.BFLOAT16, DType.UINT8]


def test_an_aligned_size_that_a_sibling_rejects() -> None:
    wide = facts(head_size=512, cache_dtype="int8_per_token_head")
    pair = [backend_named("TRITON_ATTN"), backend_named("TRITON_FLASHINFER")]
    with pytest.raises(EngineRefusalError, match="Aligned KV cache block size 32"):
        stage_blocks(pair, wide, requested=16, model_dtype=DType.BFLOAT16, skips_layers=True)
