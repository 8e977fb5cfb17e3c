"""Backends of caches beside attention: index keys and compressed states. Nothing selects them.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/indexer.py``.
"""

from __future__ import annotations

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.mla.dense import HALF, PLAIN, blocks, one_of


DEEPSEEK_V32_INDEXER = Backend(
    name="DEEPSEEK_V32_INDEXER",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN),
    kernel_block_sizes=blocks(64),
    pcp=True,
)

CACHES = (DEEPSEEK_V32_INDEXER,)
