"""What a latent backend's implementation refuses when the engine builds it for a layer.

Source: vLLM 0.33.0 ``__init__`` of the implementations in ``vllm/v1/attention/backends/mla``
and of ``vllm/model_executor/layers/attention/mla_attention.py:MLAAttention``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.quant_modes import is_quantized
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.models.shape import MLALayer

# Implementations without windows, by the engine's class names.
_NO_WINDOWS: Final = {
    "CUTLASS_MLA": "CutlassMLAImpl",
    "FLASH_ATTN_MLA": "FlashAttnMLAImpl",
    "FLASHINFER_MLA": "FlashInferMLAImpl",
    "FLASHMLA": "FlashMLAImpl",
    "TRITON_MLA": "TritonMLAImpl",
    "FLASHINFER_MLA_SPARSE": "FlashInferMLASparseImpl",
}


def check_latent(scope: BuildScope, layer: MLALayer, backend: Backend, kv_cache_dtype: str) -> None:
    """Raise the refusal of the implementation or of the layer, if there is one."""
    implementation = _NO_WINDOWS.get(backend.name)
    if layer.sliding_window is not None and implementation is not None:
        raise model_refusal(
            "NotImplementedError",
            f"{implementation} does not support one of the following: alibi_slopes, "
            "sliding_window, logits_soft_cap",
        )
    if backend.name == "TRITON_MLA":
        _check_triton(scope.facts, kv_cache_dtype)
    if backend.name == "FLASHMLA_SPARSE":
        _check_flashmla_sparse(scope, kv_cache_dtype)
    _check_context_parallel(scope)


def check_named(scope: BuildScope, backend: Backend, kv_cache_dtype: str) -> None:
    """The same for a backend that the model file names, whatever its layer's window."""
    if backend.name == "TRITON_MLA":
        _check_triton(scope.facts, kv_cache_dtype)
    elif is_quantized(kv_cache_dtype):
        raise model_refusal(
            "NotImplementedError",
            "FlashAttnMLASparseImpl currently supports only FP16/BF16 KV cache.",
            way_out="use --kv-cache-dtype auto",
        )
    _check_context_parallel(scope)


def _check_triton(facts: Facts, kv_cache_dtype: str) -> None:
    major, minor = facts.capability
    place = f"{facts.device_name} (compute capability {major}.{minor})"
    if kv_cache_dtype.startswith("fp8") and facts.capability < (8, 9):
        plain = "bfloat16" if facts.capability >= (8, 0) else "float16"
        raise model_refusal(
            "ValueError",
            f"FP8 KV cache is not supported by the Triton MLA backend on {place}; native FP8 "
            f"(fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {plain}.",
        )
    if kv_cache_dtype == "bfloat16" and facts.capability < (8, 0):
        raise model_refusal(
            "ValueError",
            f"bfloat16 KV cache is not supported by the Triton MLA backend on {place}; bfloat16 "
            "requires SM80+. Re-run with --kv-cache-dtype float16.",
        )


def _check_flashmla_sparse(scope: BuildScope, kv_cache_dtype: str) -> None:
    shared = scope.settings.decode_context_parallel_size > 1
    if shared and not is_quantized(kv_cache_dtype):
        raise model_refusal(
            "NotImplementedError",
            "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache; the bf16 sparse path is not "
            "supported under DCP.",
            way_out="use --kv-cache-dtype fp8_ds_mla",
        )


def _check_context_parallel(scope: BuildScope) -> None:
    settings = scope.settings
    if settings.prefill_context_parallel_size > 1 and settings.decode_context_parallel_size > 1:
        raise model_refusal("NotImplementedError", "MLAAttention does not support PCP+DCP.")
