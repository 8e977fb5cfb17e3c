"""The caches of compressed latent attention, and of attention to chosen blocks."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.models.shape import CompressedPart, IndexLayer, OwnCache
from kvplan_cli.specs import MLAAttentionSpec, SlidingWindowMLASpec
from tests.backends.builders import layer, plan
from tests.backends.latent import compressed

WINDOW, VECTORS, INDEX, PARTIAL = (
    CompressedPart.WINDOW,
    CompressedPart.VECTORS,
    CompressedPart.INDEX,
    CompressedPart.PARTIAL,
)
INDEXED = (
    compressed(INDEX, head_size=132),
    compressed(WINDOW),
    compressed(VECTORS),
    compressed(PARTIAL, head_size=2048, sliding_window=8),
)


def test_pages_of_an_indexed_layer() -> None:
    answer = plan(*INDEXED)
    pages = [spec.page_size_bytes for spec in answer.stages[0].values()]
    assert pages == [8640, 37440, 37440, 32832]
    assert answer.block_size == 256
    assert answer.supported_layouts[0] == (KVCacheLayout.BLHNC, KVCacheLayout.BLNHC)


def test_a_window_alone_has_an_attention_layer_without_a_cache() -> None:
    answer = plan(compressed(WINDOW), compressed(VECTORS, compress_ratio=1))
    assert len(answer.stages[0]) == 1
    assert dict(answer.backends[0]) == {"DEEPSEEK_SPARSE_SWA": 1, "FLASHMLA_SPARSE_DSV4": 1}


@pytest.mark.parametrize(
    ("cache_dtype", "dtype", "page"),
    [("auto", DType.BFLOAT16, 65536), ("fp8", DType.FLOAT8_E4M3FN, 32768)],
)
def test_plain_rows_of_flashinfer(cache_dtype: str, dtype: DType, page: int) -> None:
    backend: dict[str, Any] = {"attention_backend": "FLASHINFER_MLA_SPARSE_DSV4", "card": "B200"}
    answer = plan(compressed(WINDOW), cache_dtype=cache_dtype, **backend)
    (spec,) = answer.stages[0].values()
    assert isinstance(spec, SlidingWindowMLASpec)
    assert (spec.dtype, spec.page_size_bytes, spec.alignment) == (dtype, page, 512)


def block_sparse(**changes: Any) -> Any:
    own = OwnCache(backend="MINIMAX_M3_SPARSE", quantized=True, topk_blocks=16)
    keys = IndexLayer(
        name="model.layers.0.self_attn.attn.index_cache",
        decoder_layer=0,
        backend="MINIMAX_M3_SPARSE_INDEXER",
        head_size=128,
        dtype=DType.BFLOAT16,
        max_tp_shards=None,
    )
    return plan(keys, layer(own_cache=own), **changes)


def test_chosen_blocks_are_whole_pages() -> None:
    answer = block_sparse()
    keys, attention = answer.stages[0].values()
    assert answer.block_size == 128
    assert isinstance(keys, MLAAttentionSpec)
    assert keys.page_size_bytes == 128 * 128 * 2
    assert attention.page_size_bytes == 128 * 4 * 256 * 2


def test_nvfp4_blocks_need_blackwell() -> None:
    with pytest.raises(EngineRefusalError, match="only with the SM100 MSA backend"):
        block_sparse(cache_dtype="nvfp4")
    answer = block_sparse(cache_dtype="nvfp4", card="B200")
    assert answer.supported_layouts[0] == (KVCacheLayout.LBHNC,)
