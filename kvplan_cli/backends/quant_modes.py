"""KV dtype names: how a cache of each is quantized and what its elements are.

Source: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py:get_kv_quant_mode`` and
``vllm/utils/torch_utils.py:STR_DTYPE_TO_TORCH_DTYPE``.
"""

from __future__ import annotations

from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.errors import InputError, Problem

_PACKED = ("turboquant_", "octave_", "ultraquant_")
_ELEMENTS = {
    "float32": DType.FLOAT32,
    "float": DType.FLOAT32,
    "float16": DType.FLOAT16,
    "half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "fp8_inc": DType.FLOAT8_E4M3FN,
    "int8_per_token_head": DType.INT8,
}
PER_TOKEN_HEAD_MODES = frozenset(
    {
        KVQuantMode.INT4_PER_TOKEN_HEAD,
        KVQuantMode.INT8_PER_TOKEN_HEAD,
        KVQuantMode.FP8_PER_TOKEN_HEAD,
    }
)
TURBOQUANT_MODES = frozenset(
    {
        KVQuantMode.TURBOQUANT_K8V4,
        KVQuantMode.TURBOQUANT_4BIT_NC,
        KVQuantMode.TURBOQUANT_K3V4_NC,
        KVQuantMode.TURBOQUANT_3BIT_NC,
    }
)


def kv_quant_mode(kv_cache_dtype: str) -> KVQuantMode:
    """How a cache of this KV dtype is quantized; NONE for plain elements."""
    if kv_cache_dtype.endswith("_per_token_head") or kv_cache_dtype.startswith(_PACKED):
        return KVQuantMode(kv_cache_dtype.upper())
    if kv_cache_dtype == "nvfp4_ds_mla":
        return KVQuantMode.NVFP4_DS_MLA
    if kv_cache_dtype.startswith("nvfp4"):
        return KVQuantMode.NVFP4
    if kv_cache_dtype.startswith("fp8"):
        return KVQuantMode.FP8_PER_TENSOR
    return KVQuantMode.NONE


def is_quantized(kv_cache_dtype: str) -> bool:
    """Whether a cache of this KV dtype is quantized."""
    return kv_quant_mode(kv_cache_dtype) is not KVQuantMode.NONE


def packs_keys_with_values(kv_cache_dtype: str) -> bool:
    """Whether key and value share one packed slot, with plain layers at both ends of the model.

    Source: vLLM 0.33.0 ``arg_utils.py:create_engine_config`` (uses_packed_kv_backend).
    """
    return kv_cache_dtype.startswith("turboquant_") or kv_cache_dtype == "ultraquant_4bit"


def cache_elements(kv_cache_dtype: str, model_dtype: DType) -> DType:
    """The element type of a cache; ``auto`` is the model's. InputError for an unknown name."""
    if kv_cache_dtype == "auto":
        return model_dtype
    if kv_cache_dtype in _ELEMENTS:
        return _ELEMENTS[kv_cache_dtype]
    if kv_quant_mode(kv_cache_dtype) is KVQuantMode.NONE:
        raise InputError(
            Problem(where="--kv-cache-dtype", reason=f"unknown KV dtype {kv_cache_dtype!r}")
        )
    return DType.UINT8
