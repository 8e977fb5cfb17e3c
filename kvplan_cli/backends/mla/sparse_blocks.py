"""MiniMax M3: grouped queries over the blocks that an indexer chose.

Source: vLLM 0.33.0 ``vllm/models/minimax_m3/common/{sparse_attention,indexer}.py`` and
``vllm/models/minimax_m3/nvidia/sparse_attention_msa.py``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.mla.dense import HALF, blocks, head_sizes, one_of
from kvplan_cli.backends.packing import nvfp4_slots
from kvplan_cli.backends.quant_modes import kv_quant_mode
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import KVQuantMode
from kvplan_cli.layouts import KVCacheLayout

_STORED = one_of("bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")
# Counts of blocks that Blackwell's own kernel attends to.
_MSA_BLOCKS = (4, 8, 16, 32)

MINIMAX_M3_SPARSE = Backend(
    name="MINIMAX_M3_SPARSE",
    dtypes=HALF,
    kv_cache_dtype=_STORED,
    head_size=head_sizes(128),
    kernel_block_sizes=blocks(128),
    sparse=True,
)
# Keys and values of each head in slots of their own.
_PACKED = replace(
    MINIMAX_M3_SPARSE,
    kv_cache_dtype=one_of("nvfp4"),
    layouts=lambda _facts: (KVCacheLayout.LBHNC,),
    packing=nvfp4_slots,
)
MINIMAX_M3_SPARSE_INDEXER = Backend(
    name="MINIMAX_M3_SPARSE_INDEXER",
    dtypes=HALF,
    kv_cache_dtype=_STORED,
    head_size=head_sizes(128),
    kernel_block_sizes=blocks(128),
    sparse=True,
)


def sparse_block_backend(facts: Facts, kv_cache_dtype: str, topk_blocks: int) -> Backend:
    """What reads the cache; NVFP4 needs Blackwell's own kernel. Raises: EngineRefusalError."""
    if kv_quant_mode(kv_cache_dtype) is not KVQuantMode.NVFP4:
        return MINIMAX_M3_SPARSE
    if kv_cache_dtype != "nvfp4":
        raise model_refusal(
            "ValueError",
            "MiniMax M3 sparse attention supports only the 'nvfp4' NVFP4 KV cache dtype, got "
            f"{kv_cache_dtype}",
        )
    if facts.major != 10 or topk_blocks not in _MSA_BLOCKS:
        raise model_refusal(
            "ValueError",
            "MiniMax M3 sparse attention supports an NVFP4 KV cache only with the SM100 MSA "
            f"backend (kv_cache_dtype={kv_cache_dtype}, topk_blocks={topk_blocks})",
        )
    return _PACKED
