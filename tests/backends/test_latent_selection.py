"""Which backend serves a latent layer, and what it stores: card x kind x KV dtype.

Every row was answered by vLLM 0.33.0 itself, posed as on the card.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.backends.mla.rows import MLA_BACKENDS
from kvplan_cli.backends.selection import BACKENDS
from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.specs import MLAAttentionSpec, MultipleOf, SlidingWindowMLASpec
from tests.backends.builders import plan
from tests.backends.latent import dense, index_keys, sparse

Row = tuple[str, str, str, int]

# Card, KV dtype, backend, tokens a block.
DENSE: tuple[Row, ...] = (
    ("A100", "auto", "TRITON_MLA", 16),
    ("L4", "fp8", "TRITON_MLA", 16),
    ("H100", "auto", "FLASH_ATTN_MLA", 16),
    ("H100", "bfloat16", "FLASH_ATTN_MLA", 16),
    ("H100", "fp8", "FLASHMLA", 64),
    ("H100", "fp8_e4m3", "FLASHMLA", 64),
    ("B200", "auto", "FLASHINFER_MLA", 32),
    ("B200", "fp8", "FLASHINFER_MLA", 32),
    ("RTX5090", "auto", "TRITON_MLA", 16),
)
SPARSE: tuple[Row, ...] = (
    ("H100", "auto", "FLASH_ATTN_MLA_SPARSE", 64),
    ("H100", "fp8", "FLASHMLA_SPARSE", 64),
    ("H100", "fp8_ds_mla", "FLASHMLA_SPARSE", 64),
    ("H100", "fp8_e4m3", "FLASHINFER_MLA_SPARSE_SM90", 64),
    ("B200", "auto", "FLASHMLA_SPARSE", 64),
    ("B200", "fp8", "FLASHINFER_MLA_SPARSE", 64),
    ("B200", "nvfp4_ds_mla", "FLASHMLA_SPARSE", 64),
    ("RTX5090", "auto", "FLASHINFER_MLA_SPARSE_SM120", 64),
)


def spec_of(*layers: Any, **changes: Any) -> MLAAttentionSpec:
    *_, spec = plan(*layers, **changes).stages[0].values()
    assert isinstance(spec, MLAAttentionSpec)
    return spec


@pytest.mark.parametrize(("card", "cache_dtype", "backend", "block_size"), DENSE)
def test_dense(card: str, cache_dtype: str, backend: str, block_size: int) -> None:
    answer = plan(dense(), card=card, cache_dtype=cache_dtype)
    assert dict(answer.backends[0]) == {backend: 1}
    assert answer.block_size == block_size


@pytest.mark.parametrize(("card", "cache_dtype", "backend", "block_size"), SPARSE)
def test_sparse(card: str, cache_dtype: str, backend: str, block_size: int) -> None:
    answer = plan(index_keys(), sparse(), card=card, cache_dtype=cache_dtype)
    assert dict(answer.backends[0]) == {"DEEPSEEK_V32_INDEXER": 1, backend: 1}
    assert answer.block_size == block_size


def test_few_heads_on_blackwell_take_flash_attention_4() -> None:
    answer = plan(index_keys(), sparse(), card="B200", tensor_parallel_size=8)
    assert "FLASH_ATTN_MLA_SPARSE_FA4" in answer.backends[0]


@pytest.mark.parametrize(
    ("cache_dtype", "stored", "content"),
    [("fp8", "fp8_ds_mla", 656), ("fp8_ds_mla", "fp8_ds_mla", 656), ("auto", "auto", None)],
)
def test_flashmla_packs_quantized_vectors(
    cache_dtype: str, stored: str, content: int | None
) -> None:
    spec = spec_of(index_keys(), sparse(), cache_dtype=cache_dtype)
    assert (spec.cache_dtype_str, spec.state_content_bytes) == (stored, content)


def test_nvfp4_vectors_on_blackwell() -> None:
    spec = spec_of(index_keys(), sparse(), card="B200", cache_dtype="nvfp4_ds_mla")
    assert spec.kv_quant_mode is KVQuantMode.NVFP4_DS_MLA
    assert spec.page_size_bytes == 64 * 352


def test_a_dense_vector_is_one_head_on_every_rank() -> None:
    spec = spec_of(dense(), tensor_parallel_size=8)
    assert spec == MLAAttentionSpec(
        block_size=16,
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=576,
        dtype=DType.BFLOAT16,
        cache_dtype_str="auto",
    )


@pytest.mark.parametrize(
    ("card", "cache_dtype", "alignment"),
    [
        ("H100", "auto", 576 * 2),
        ("H100", "fp8", MultipleOf(64)),
        ("H100", "fp8_e4m3", 576),
        ("B200", "fp8", 32 * 576),
        ("B200", "auto", 576 * 2),
    ],
)
def test_blocks_of_sparse_layers_keep_rows_whole(
    card: str, cache_dtype: str, alignment: int | MultipleOf
) -> None:
    spec = spec_of(index_keys(), sparse(), card=card, cache_dtype=cache_dtype)
    assert spec.block_stride_alignment == alignment


def test_a_sink_takes_the_backend_that_applies_it() -> None:
    answer = plan(index_keys(), sparse(has_sink=True))
    assert "FLASHMLA_SPARSE" in answer.backends[0]


def test_rows_as_wide_as_the_layers_beside_them() -> None:
    full = sparse(backend="DOTS3_NOTE_PADDED_MLA_SPARSE", stored_head_size=1088)
    slides = dense(1, kv_lora_rank=1024, sliding_window=512, backend="TRITON_MLA")
    answer = plan(index_keys(), full, slides)
    _, padded, window = answer.stages[0].values()
    assert isinstance(padded, MLAAttentionSpec)
    assert isinstance(window, SlidingWindowMLASpec)
    assert padded.page_size_bytes == window.page_size_bytes


def test_a_skipped_layer_stays_plain() -> None:
    from kvplan_cli.engine_args import EngineArgs

    args = EngineArgs(kv_cache_dtype_skip_layers=("0",))
    answer = plan(dense(0), dense(1), cache_dtype="fp8", args=args, attention_backend="TRITON_MLA")
    dtypes = [
        spec.dtype for spec in answer.stages[0].values() if isinstance(spec, MLAAttentionSpec)
    ]
    assert dtypes == [DType.BFLOAT16, DType.UINT8]


def test_latent_backends_have_names_of_their_own() -> None:
    assert all(name == backend.name for name, backend in MLA_BACKENDS.items())
    assert not set(MLA_BACKENDS) & set(BACKENDS)
