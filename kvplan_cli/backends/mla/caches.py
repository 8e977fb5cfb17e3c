"""Backends that a model file names itself: index keys, compressed vectors. Nothing selects them.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/{indexer,sparse_swa}.py`` and
``vllm/models/deepseek_v4/{compressor,sparse_mla}.py``, ``.../nvidia/flashinfer_sparse.py``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.mla.dense import FP8, HALF, PLAIN, blocks, one_of
from kvplan_cli.backends.mla.sparse import FLASH_ATTN_MLA_SPARSE
from kvplan_cli.backends.mla.sparse_blocks import MINIMAX_M3_SPARSE, MINIMAX_M3_SPARSE_INDEXER
from kvplan_cli.dtypes import DType
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import MultipleOf

_BFLOAT16 = frozenset({DType.BFLOAT16})

DEEPSEEK_V32_INDEXER = Backend(
    name="DEEPSEEK_V32_INDEXER",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN),
    kernel_block_sizes=blocks(64),
    pcp=True,
)
# Index pages lie beside the vectors of the same block.
DEEPSEEK_V4_INDEXER = Backend(
    name="DEEPSEEK_V4_INDEXER",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN),
    kernel_block_sizes=blocks(256),
    layouts=lambda _facts: (KVCacheLayout.BLHNC, KVCacheLayout.BLNHC),
    pcp=True,
)
DEEPSEEK_SPARSE_SWA = Backend(
    name="DEEPSEEK_SPARSE_SWA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN),
    kernel_block_sizes=blocks(MultipleOf(32)),
    preferred_block_size=256,
)
COMPRESSOR = Backend(name="CompressorBackend", dtypes=HALF, kv_cache_dtype=one_of(*PLAIN))
FLASHMLA_SPARSE_DSV4 = Backend(
    name="FLASHMLA_SPARSE_DSV4",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", "fp8_ds_mla", "fp8"),
    kernel_block_sizes=blocks(256),
    mla=True,
    sparse=True,
)
FLASHINFER_MLA_SPARSE_DSV4 = Backend(
    name="FLASHINFER_MLA_SPARSE_DSV4",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", "bfloat16", *FP8, "fp8_ds_mla"),
    kernel_block_sizes=blocks(256),
    mla=True,
    sparse=True,
)
# DeepSeek's sparse rows as wide as those of the sliding layers beside them.
DOTS3_NOTE_PADDED_MLA_SPARSE = replace(
    FLASH_ATTN_MLA_SPARSE,
    name="DOTS3_NOTE_PADDED_MLA_SPARSE",
    layouts=lambda _facts: (KVCacheLayout.BLHNC,),
)

CACHES = (
    COMPRESSOR,
    DEEPSEEK_SPARSE_SWA,
    DEEPSEEK_V32_INDEXER,
    DEEPSEEK_V4_INDEXER,
    DOTS3_NOTE_PADDED_MLA_SPARSE,
    FLASHINFER_MLA_SPARSE_DSV4,
    FLASHMLA_SPARSE_DSV4,
    MINIMAX_M3_SPARSE,
    MINIMAX_M3_SPARSE_INDEXER,
)
