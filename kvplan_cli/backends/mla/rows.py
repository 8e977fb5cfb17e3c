"""The backends that read latent vectors, and in which order the engine tries them.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/*.py`` and
``vllm/platforms/cuda.py:_get_backend_priorities``.
"""

from __future__ import annotations

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.mla.caches import CACHES
from kvplan_cli.backends.mla.dense import (
    CUTLASS_MLA,
    FLASH_ATTN_MLA,
    FLASHINFER_MLA,
    FLASHMLA,
    TOKENSPEED_MLA,
    TRITON_MLA,
)
from kvplan_cli.backends.mla.sparse import (
    FLASH_ATTN_MLA_SPARSE,
    FLASH_ATTN_MLA_SPARSE_FA4,
    FLASHINFER_MLA_SPARSE,
    FLASHINFER_MLA_SPARSE_SM90,
    FLASHINFER_MLA_SPARSE_SM120,
    FLASHMLA_SPARSE,
)
from kvplan_cli.backends.quant_modes import is_quantized
from kvplan_cli.backends.request import BackendRequest

MLA_BACKENDS = {
    backend.name: backend
    for backend in (
        CUTLASS_MLA,
        FLASH_ATTN_MLA,
        FLASH_ATTN_MLA_SPARSE,
        FLASH_ATTN_MLA_SPARSE_FA4,
        FLASHINFER_MLA,
        FLASHINFER_MLA_SPARSE,
        FLASHINFER_MLA_SPARSE_SM90,
        FLASHINFER_MLA_SPARSE_SM120,
        FLASHMLA,
        FLASHMLA_SPARSE,
        TOKENSPEED_MLA,
        TRITON_MLA,
        *CACHES,
    )
}
# Heads of a rank up to which FlashMLA would mostly compute padding.
_FEW_HEADS = 16
# States without a rotary part.
_PLAIN_LATENT = 512


def mla_priorities(facts: Facts, request: BackendRequest) -> tuple[Backend, ...]:
    """The backends that the engine tries, best first."""
    if facts.major == 10:
        first = (FLASHINFER_MLA, TOKENSPEED_MLA, CUTLASS_MLA)
        return (*first, FLASH_ATTN_MLA, FLASHMLA, TRITON_MLA, *_sparse_on_blackwell(request))
    if facts.major == 12:
        return (TRITON_MLA, FLASHINFER_MLA_SPARSE_SM120)
    dense = (FLASH_ATTN_MLA, FLASHMLA, FLASHINFER_MLA, TRITON_MLA)
    sparse = (FLASH_ATTN_MLA_SPARSE, FLASHMLA_SPARSE)
    if request.head_size == _PLAIN_LATENT:
        return (*dense, FLASHINFER_MLA_SPARSE_SM90, *sparse)
    return (*dense, *sparse, FLASHINFER_MLA_SPARSE_SM90)


def _sparse_on_blackwell(request: BackendRequest) -> tuple[Backend, ...]:
    if is_quantized(request.kv_cache_dtype):
        return (FLASHINFER_MLA_SPARSE, FLASHMLA_SPARSE)
    if request.num_heads is not None and request.num_heads <= _FEW_HEADS:
        return (FLASH_ATTN_MLA_SPARSE_FA4, FLASHINFER_MLA_SPARSE, FLASHMLA_SPARSE)
    return (FLASHMLA_SPARSE, FLASHINFER_MLA_SPARSE)
