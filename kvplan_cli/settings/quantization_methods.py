"""The engine's weight quantization methods: what each asks of card, dtype and checkpoint.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/quantization/__init__.py``, each config's
``get_min_capability`` and ``get_supported_act_dtypes``, and
``vllm/model_executor/model_loader/weight_utils.py:get_quant_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.gpus import Gpu
from kvplan_cli.settings.refusal import refuses
from kvplan_cli.values import dataclass

_BF16: Final = DType.BFLOAT16
_FP16: Final = DType.FLOAT16
_FP32: Final = DType.FLOAT32


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """min_capability: major and minor as one number. dtypes: of activations, in the engine's
    order. online: serves a checkpoint that is not quantized, too. failure: what its class says
    without a quantized checkpoint; None, it looks for a file that is not there.
    """

    min_capability: int
    dtypes: tuple[DType, ...] = (_BF16, _FP16)
    online: bool = False
    failure: str | None = None


def _lacks(class_name: str, arguments: str) -> str:
    return f"{class_name}.__init__() missing {arguments}"


_ONLINE: Final = Method(min_capability=75, online=True)
_GPTQ: Final = Method(min_capability=60, dtypes=(_FP16, _BF16))
_AWQ: Final = Method(min_capability=75, dtypes=(_FP16, _BF16))
_MXFP4: Final = Method(min_capability=80, dtypes=(_BF16,), online=True)

# In the engine's order, which its refusal of an unknown name prints.
METHODS: Final[Mapping[str, Method]] = {
    "awq": _AWQ,
    "auto_awq": _AWQ,
    "fp8": _ONLINE,
    "fbgemm_fp8": Method(min_capability=80),
    "fp_quant": Method(min_capability=100, dtypes=(_BF16,)),
    "modelopt": Method(min_capability=80),
    "modelopt_fp4": Method(min_capability=75, dtypes=(_BF16, _FP16, DType.FLOAT8_E4M3FN)),
    "modelopt_mxfp8": Method(min_capability=80, dtypes=(_BF16,)),
    "modelopt_mixed": Method(min_capability=75),
    "auto_gptq": _GPTQ,
    "gptq": _GPTQ,
    "gptq_marlin": _GPTQ,
    "awq_marlin": _AWQ,
    "humming": Method(min_capability=75, online=True),
    "compressed-tensors": Method(
        min_capability=70,
        dtypes=(_FP32, _FP16, _BF16),
        failure=_lacks(
            "CompressedTensorsConfig",
            "3 required positional arguments: 'target_scheme_map', 'ignore', and 'quant_format'",
        ),
    ),
    "experts_int8": Method(min_capability=80, online=True),
    "quark": Method(
        min_capability=70,
        dtypes=(_FP16, _BF16),
        failure=_lacks("QuarkConfig", "1 required positional argument: 'quant_config'"),
    ),
    "moe_wna16": Method(min_capability=70),
    "torchao": Method(
        min_capability=75,
        dtypes=(_FP32, _FP16, _BF16),
        failure=_lacks("TorchAOConfig", "1 required positional argument: 'torchao_config'"),
    ),
    "inc": Method(min_capability=60, dtypes=(_FP16, _BF16)),
    "mxfp4": _MXFP4,
    "gpt_oss_mxfp4": _MXFP4,
    "deepseek_v4_fp8": _ONLINE,
    "online": Method(
        min_capability=75,
        failure=_lacks("OnlineQuantizationConfig", "1 required positional argument: 'args'"),
    ),
    "fp8_per_tensor": _ONLINE,
    "fp8_per_block": _ONLINE,
    "fp8_per_channel": _ONLINE,
    "int8_per_channel_weight_only": _ONLINE,
    "nvfp4_per_token": _ONLINE,
    "mxfp8": Method(min_capability=80, dtypes=(_BF16,), online=True),
}
DEPRECATED_METHODS: Final = ("fbgemm_fp8", "fp_quant")
# Checkpoint methods whose name also means: quantize plain weights while loading.
_SHORTHANDS: Final = ("mxfp4", "mxfp8")


def check_method(name: str | None, *, quantized_checkpoint: bool, dtype: DType, gpu: Gpu) -> None:
    """Raises EngineRefusalError where card, dtype or checkpoint do not suit the method.

    Source: vLLM 0.33.0 ``vllm/config/vllm.py:_get_quantization_config``.
    """
    if name is None:
        return
    method = METHODS[name]
    if not quantized_checkpoint:
        if method.failure is not None:
            raise refuses(method.failure, error_type="TypeError")
        if not method.online:
            raise refuses(f"Cannot find the config file for {name}")
        if name in _SHORTHANDS:
            method = _ONLINE
    capability = gpu.capability[0] * 10 + gpu.capability[1]
    if capability < method.min_capability:
        raise refuses(
            f"The quantization method {name} is not supported for the current GPU. Minimum "
            f"capability: {method.min_capability}. Current capability: {capability}."
        )
    if dtype not in method.dtypes:
        supported = ", ".join(f"torch.{known.torch_name}" for known in method.dtypes)
        raise refuses(
            f"torch.{dtype.torch_name} is not supported for quantization method {name}. "
            f"Supported dtypes: [{supported}]"
        )
