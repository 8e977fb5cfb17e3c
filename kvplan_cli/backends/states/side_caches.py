"""The backends of indexers that pool keys, and of the attention that they choose for.

Source: vLLM 0.33.0 ``vllm/models/qwen4_exp/common/qsa_cache.py``, ``.../nvidia/qsa.py`` and
``vllm/v1/attention/backends/mla/indexer.py``; ``vllm/models/step5/nvidia``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.backends.backend import Backend, KernelBlockSize
from kvplan_cli.backends.capabilities import FLASH_ATTN
from kvplan_cli.backends.facts import Facts
from kvplan_cli.dtypes import DType
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import AttentionSpec, MultipleOf

_BFLOAT16 = frozenset({DType.BFLOAT16})
QSA_KV_DTYPES = ("auto", "bfloat16", "fp8", "fp8_e4m3")


def _pooled_pages(facts: Facts, spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    """The kernels take pages of 32 or 64 keys, Blackwell's smaller cards 64 only."""
    pool = int(spec.tokens_per_state) if spec is not None else _pool(facts)
    return tuple(pool * keys for keys in ((64,) if facts.major == 12 else (32, 64)))


def _pool(facts: Facts) -> int:
    assert facts.config is not None, "block sizes are chosen with the engine's config in scope"
    return facts.config.index_pool


QSA_STATE = Backend(
    name="QWEN4_EXP_EXP_QSA_STATE",
    dtypes=_BFLOAT16,
    kv_cache_dtype=lambda name, _facts: name in QSA_KV_DTYPES,
    layouts=lambda _facts: (KVCacheLayout.BLNHC, KVCacheLayout.BLHNC),
)
QSA_TRITON = Backend(
    name="QWEN4_EXP_QSA_TRITON",
    dtypes=_BFLOAT16,
    kv_cache_dtype=lambda name, _facts: name in QSA_KV_DTYPES,
    kernel_block_sizes=lambda _facts, _spec: (MultipleOf(16),),
)
KPOOL_TAIL = Backend(
    name="KPOOL_TAIL",
    dtypes=frozenset({DType.FLOAT16, DType.BFLOAT16}),
    kv_cache_dtype=lambda name, _facts: name in ("auto", "float16", "bfloat16"),
    layouts=lambda _facts: (KVCacheLayout.BLHNC,),
)
# The engine gives it the name of the indexer that it derives from.
GLM5_NEXT_INDEXER = Backend(
    name="DEEPSEEK_V32_INDEXER",
    dtypes=frozenset({DType.FLOAT16, DType.BFLOAT16}),
    kv_cache_dtype=lambda name, _facts: name in ("auto", "float16", "bfloat16"),
    kernel_block_sizes=_pooled_pages,
)
STEP5_SUMMARY = Backend(
    name="STEP5_CSA_SUMMARY",
    dtypes=frozenset({DType.FLOAT16, DType.BFLOAT16}),
    kv_cache_dtype=lambda name, _facts: name in ("auto", "float16", "bfloat16"),
)
# Its prefill reads pages of eight tokens, which must tile the distance of two blocks.
STEP5_DSA = replace(
    FLASH_ATTN,
    name="STEP5_DSA",
    stride_alignment=lambda _spec, _facts: MultipleOf(8),
    layouts=lambda _facts: (KVCacheLayout.BLNHC,),
)
SIDE_CACHES = {
    "GLM5_NEXT_INDEXER": GLM5_NEXT_INDEXER,
    "KPOOL_TAIL": KPOOL_TAIL,
    "QWEN4_EXP_EXP_QSA_STATE": QSA_STATE,
    "QWEN4_EXP_QSA_TRITON": QSA_TRITON,
    "STEP5_CSA_SUMMARY": STEP5_SUMMARY,
    "STEP5_CSA_TAIL_RING": replace(STEP5_SUMMARY, name="STEP5_CSA_TAIL_RING"),
    "STEP5_DSA": STEP5_DSA,
}
