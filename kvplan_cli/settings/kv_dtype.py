"""The KV cache's element type, by the engine's names.

Source: vLLM 0.33.0 ``vllm/utils/torch_utils.py:resolve_kv_cache_dtype_string``,
``vllm/config/cache.py:CacheDType``, ``vllm/config/vllm.py:_reject_mismatched_float_kv_cache``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.dtypes import DType
from kvplan_cli.settings.quantization import CheckpointQuantization
from kvplan_cli.settings.refusal import refuses

# In the engine's order, which its refusal of an unknown name prints.
KV_CACHE_DTYPES: Final = (
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
    "octave_k3v4",
    "octave_k3v3",
    "octave_k3v3_compact",
    "ultraquant_4bit",
    "int4_per_token_head",
    "int8_per_token_head",
    "fp8_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
)
_FROM_MODELOPT: Final[Mapping[str, str]] = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def kv_cache_dtype(flag: str, checkpoint: CheckpointQuantization | None) -> str:
    """The KV dtype name after ``auto`` has been looked up in the checkpoint.

    ``auto`` stays where the checkpoint does not say: the cache has the model's type then.
    """
    name = flag
    if flag == "auto" and checkpoint is not None and checkpoint.top_level:
        name = _checkpoint_dtype(checkpoint)
    if name not in KV_CACHE_DTYPES:
        raise refuses(
            f"Invalid kv_cache_dtype: {name!r}. Valid values are: {list(KV_CACHE_DTYPES)}"
        )
    return name


def has_kv_cache_scheme(
    quantization: str | None, checkpoint: CheckpointQuantization | None
) -> bool:
    """Whether layers read a scheme from a compressed-tensors checkpoint."""
    if quantization != "compressed-tensors" or checkpoint is None:
        return False
    return checkpoint.section.has("kv_cache_scheme")


def check_kv_dtype(cache_dtype: str, dtype: DType) -> None:
    """Raises EngineRefusalError for a KV dtype that does not suit the model's."""
    own = dtype.torch_name
    if cache_dtype in ("float16", "bfloat16") and cache_dtype != own:
        allowed = f"`auto` or `{own}`" if own in ("float16", "bfloat16") else "`auto`"
        raise refuses(
            f'kv_cache_dtype="{cache_dtype}" is incompatible with dtype="{own}". '
            f"Please set `--kv-cache-dtype` to {allowed}."
        )


def check_mla_kv_dtype(cache_dtype: str, *, use_mla: bool) -> None:
    """Raises EngineRefusalError for the plain NVFP4 cache with MLA.

    Source: vLLM 0.33.0 ``vllm/config/vllm.py:validate_nvfp4_kv_cache_with_mla``.
    """
    if use_mla and cache_dtype.startswith("nvfp4") and not cache_dtype.endswith("_ds_mla"):
        raise refuses(
            "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. "
            "Please use a different --kv-cache-dtype (e.g., 'fp8', 'auto', or 'nvfp4_ds_mla' "
            "with a sparse MLA backend) for MLA models such as DeepSeek."
        )


def _checkpoint_dtype(checkpoint: CheckpointQuantization) -> str:
    if not checkpoint.method.startswith("modelopt"):
        return "auto"
    outer = checkpoint.section.values
    inner = outer.get("quantization", outer)
    inner = inner if isinstance(inner, Mapping) else {}
    algo = (
        inner.get("kv_cache_scheme")
        or outer.get("kv_cache_scheme")
        or inner.get("kv_cache_quant_algo")
        or outer.get("kv_cache_quant_algo")
    )
    if isinstance(algo, Mapping):
        return _scheme_dtype(algo)
    return _FROM_MODELOPT.get(algo.lower(), "auto") if isinstance(algo, str) else "auto"


def _scheme_dtype(scheme: Mapping[str, Any]) -> str:
    is_float = scheme.get("type") == "float"
    if is_float and scheme.get("num_bits") == 8 and scheme.get("dynamic") is False:
        return _FROM_MODELOPT["fp8"]
    if is_float and scheme.get("num_bits") == 4:
        return _FROM_MODELOPT["nvfp4"]
    return "auto"
