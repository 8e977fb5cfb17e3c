"""Backends that a model file names itself: index keys, compressed vectors. Nothing selects them.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/{indexer,sparse_swa}.py`` and
``vllm/models/deepseek_v4/{compressor,sparse_mla}.py``, ``.../nvidia/flashinfer_sparse.py``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.backends.backend import Backend, KernelBlockSize, always
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.mla.dense import FP8, HALF, PLAIN, blocks, head_sizes, one_of
from kvplan_cli.backends.mla.sparse import FLASH_ATTN_MLA_SPARSE
from kvplan_cli.backends.mla.sparse_blocks import MINIMAX_M3_SPARSE, MINIMAX_M3_SPARSE_INDEXER
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.dtypes import DType
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import AttentionSpec, MultipleOf

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
    head_size=head_sizes(512),
    kernel_block_sizes=blocks(256),
    capability=lambda capability: capability[0] in (9, 10),
    sink=always,
    mla=True,
    sparse=True,
)


def _flashinfer_dsv4_objection(request: BackendRequest, facts: Facts) -> str | None:
    name = request.kv_cache_dtype
    if facts.major == 10:
        if name == "fp8_ds_mla":
            return (
                "FLASHINFER_MLA_SPARSE_DSV4 SM10x uses the plain per-tensor FP8 KV layout, not "
                "fp8_ds_mla"
            )
        return None if name in ("auto", "bfloat16", *FP8) else "kv_cache_dtype not supported"
    if facts.major == 12:
        return None if name in (*FP8, "fp8_ds_mla") else "kv_cache_dtype not supported"
    return "FLASHINFER_MLA_SPARSE_DSV4 requires SM10x or SM12x"


FLASHINFER_MLA_SPARSE_DSV4 = Backend(
    name="FLASHINFER_MLA_SPARSE_DSV4",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", "bfloat16", *FP8, "fp8_ds_mla"),
    head_size=head_sizes(512),
    kernel_block_sizes=blocks(256),
    capability=lambda capability: capability[0] in (10, 12),
    sink=always,
    mla=True,
    sparse=True,
    objection=_flashinfer_dsv4_objection,
)


def _v41_blocks(facts: Facts, spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    return (64,) if facts.major == 9 else (128,)


DEEPSEEK_V41_INDEXER = replace(
    DEEPSEEK_V4_INDEXER, name="DEEPSEEK_V41_INDEXER", kernel_block_sizes=_v41_blocks
)
FLASHMLA_SPARSE_DSV41 = replace(
    FLASHMLA_SPARSE_DSV4, name="FLASHMLA_SPARSE_DSV41", kernel_block_sizes=_v41_blocks, pcp=True
)
FLASHMLA_MEGA_ATTN_DSV41 = replace(
    FLASHMLA_SPARSE_DSV41, name="FLASHMLA_MEGA_ATTN_DSV41", kernel_block_sizes=blocks(128)
)
FLASHINFER_MLA_SPARSE_DSV41 = replace(
    FLASHINFER_MLA_SPARSE_DSV4,
    name="FLASHINFER_MLA_SPARSE_DSV41",
    kernel_block_sizes=blocks(128),
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
    DEEPSEEK_V41_INDEXER,
    DEEPSEEK_V4_INDEXER,
    DOTS3_NOTE_PADDED_MLA_SPARSE,
    FLASHINFER_MLA_SPARSE_DSV4,
    FLASHINFER_MLA_SPARSE_DSV41,
    FLASHMLA_MEGA_ATTN_DSV41,
    FLASHMLA_SPARSE_DSV4,
    FLASHMLA_SPARSE_DSV41,
    MINIMAX_M3_SPARSE,
    MINIMAX_M3_SPARSE_INDEXER,
)
