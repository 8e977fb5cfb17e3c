"""Names that ``--attention-backend`` takes.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/registry.py:AttentionBackendEnum``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.settings.refusal import refuses

# In the engine's order, which its refusal of an unknown name prints.
ATTENTION_BACKENDS: Final = (
    "FLASH_ATTN",
    "FLASH_ATTN_DIFFKV",
    "TRITON_ATTN",
    "TRITON_ATTN_DIFFKV",
    "TRITON_FLASH_ATTN",
    "ROCM_ATTN",
    "ROCM_SEGMENTED_ATTN",
    "ROCM_AITER_MLA",
    "ROCM_AITER_TRITON_MLA",
    "ROCM_AITER_FA",
    "ROCM_AITER_MLA_SPARSE",
    "XPU_MLA_SPARSE",
    "TORCH_SDPA",
    "FLASHINFER",
    "TRITON_FLASHINFER",
    "FLASHINFER_MLA",
    "TOKENSPEED_MLA",
    "FLASHINFER_MLA_SPARSE",
    "FLASHINFER_MLA_SPARSE_SM120",
    "FLASHINFER_MLA_SPARSE_SM90",
    "TRITON_MLA",
    "CUTLASS_MLA",
    "FLASHMLA",
    "FLASHMLA_SPARSE",
    "FLASHMLA_SPARSE_DSV4",
    "FLASHINFER_MLA_SPARSE_DSV4",
    "ROCM_FLASHMLA_SPARSE_DSV4",
    "FLASHMLA_SPARSE_DSV41",
    "FLASHINFER_MLA_SPARSE_DSV41",
    "ROCM_FLASHMLA_SPARSE_DSV41",
    "FLASHMLA_MEGA_ATTN_DSV41",
    "B12X",
    "FLASH_ATTN_MLA",
    "FLASH_ATTN_MLA_SPARSE",
    "FLASH_ATTN_MLA_SPARSE_FA4",
    "MINIMAX_M3_SPARSE",
    "CUTLASS_MSA",
    "TRITON_MSA",
    "STEP5_DSA",
    "NO_ATTENTION",
    "FLEX_ATTENTION",
    "HPC_ATTN",
    "ROCM_AITER_UNIFIED_ATTN",
    "CPU_ATTN",
    "CPU_MLA",
    "AMX_MLA",
    "TURBOQUANT",
    "ROCM_OCTAVE",
    "ULTRAQUANT",
    "CUSTOM",
)


def attention_backend(flag: str | None) -> str | None:
    """The backend's name in the engine's spelling; None where the engine chooses.

    Raises EngineRefusalError for a name that the engine does not have.
    """
    if flag is None or flag.lower() == "auto":
        return None
    name = flag.upper()
    if name not in ATTENTION_BACKENDS:
        raise refuses(
            f"Unknown attention backend: {name!r}. Valid options are: "
            f"{', '.join(ATTENTION_BACKENDS)}",
            error_type="ValueError",
        )
    return name
