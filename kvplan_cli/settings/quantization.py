"""How the checkpoint is quantized, and which of the engine's methods serves it.

Source: vLLM 0.33.0 ``vllm/config/model.py:_verify_quantization``,
``vllm/transformers_utils/model_arch_config_convertor.py:get_quantization_config`` and each
method's ``override_quantization_method``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.settings.quantization_methods import DEPRECATED_METHODS, METHODS
from kvplan_cli.settings.refusal import refuses
from kvplan_cli.values import dataclass

HF_QUANT_CONFIG: Final = "hf_quant_config.json"
_MODELOPT_ALGOS: Final[Mapping[str, str]] = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}
_GPTQ_FLAGS: Final = (None, "gptq", "gptq_marlin", "auto_gptq", "marlin")
_AWQ_FLAGS: Final = (None, "awq", "awq_marlin", "auto_awq", "marlin")
# Kimi K3's experts: the engine serves this format by a method of its own.
_KIMI_K3: Final = "kimi_k3"
_PACKED_MXFP4: Final = "mxfp4-pack-quantized"
_DEEPSEEK_V4_TYPES: Final = (
    "deepseek_v4",
    "deepseek_v4_text",
    "deepseek_v41",
    "deepseek_v41_text",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointQuantization:
    """What the checkpoint says of its quantization.

    section: its quantization config. method: its ``quant_method`` as the engine reads it, may
    be empty. top_level: it stands where the engine looks for a KV cache scheme.
    """

    section: HfConfig
    method: str
    top_level: bool


def checkpoint_quantization(
    config: HfConfig, extra_files: Mapping[str, Any]
) -> CheckpointQuantization | None:
    """The checkpoint's own quantization; None where it has none.

    extra_files: files beside the config by name; ``hf_quant_config.json`` counts where the
    config itself says nothing.
    """
    section = config.optional_section("quantization_config")
    if section is None and isinstance(extra_files.get(HF_QUANT_CONFIG), Mapping):
        section = HfConfig(extra_files[HF_QUANT_CONFIG], HF_QUANT_CONFIG)
    if section is not None:
        method = _modelopt_method(section) or section.optional_text("quant_method") or ""
        return _checkpoint(section, _hooked(config, section, method), top_level=True)
    section = config.optional_section("compression_config")
    if section is None:
        text = config.optional_section("text_config")
        section = None if text is None else text.optional_section("quantization_config")
    if section is None:
        return None
    method = _hooked(config, section, section.optional_text("quant_method") or "")
    # The class of Kimi K3 lifts its language part's section to the top.
    return _checkpoint(section, method, top_level=_is_kimi_k3(config))


def _hooked(config: HfConfig, section: HfConfig, method: str) -> str:
    """Source: vLLM 0.33.0 ``models/config.py:KimiK3ForConditionalGenerationConfig``."""
    packed = section.raw("format") == _PACKED_MXFP4 and method == "compressed-tensors"
    return "mxfp4" if packed and _is_kimi_k3(config) else method


def _is_kimi_k3(config: HfConfig) -> bool:
    return config.optional_text("model_type") == _KIMI_K3


def _checkpoint(section: HfConfig, method: str, *, top_level: bool) -> CheckpointQuantization:
    method = method.lower().replace("compressed_tensors", "compressed-tensors")
    return CheckpointQuantization(section=section, method=method, top_level=top_level)


def _modelopt_method(section: HfConfig) -> str | None:
    """The method of a ModelOpt file, which names its producer and algorithm instead."""
    producer = section.raw("producer")
    quantization = section.raw("quantization")
    inner = quantization if isinstance(quantization, Mapping) else {}
    by_modelopt = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    if not (by_modelopt or "modelopt_quant_config" in inner):
        return None
    algo = inner.get("quant_algo")
    if algo is None:
        return None
    method = _MODELOPT_ALGOS.get(str(algo).upper())
    if method is None:
        raise refuses(f"Unknown ModelOpt quant algo: {algo}")
    return method


def quantization_method(
    checkpoint: CheckpointQuantization | None,
    flag: str | None,
    model_type: str | None,
    gpu: Gpu,
) -> str | None:
    """The engine's name of the method; None where nothing is quantized.

    flag: ``--quantization``. model_type: of the whole config. Raises EngineRefusalError where
    flag and checkpoint differ, and for methods that the engine does not have.
    """
    method = None if flag is None else flag.lower()
    if checkpoint is not None:
        method = _agreed(checkpoint, method, model_type, gpu)
    if method is None:
        return None
    if method not in METHODS:
        raise refuses(f"Unknown quantization method: {method}. Must be one of {list(METHODS)}.")
    if method in DEPRECATED_METHODS:
        # The engine passes the name as a second argument, so its text is a tuple's.
        text = (
            "The quantization method %s is deprecated and will be removed in future versions "
            "of vLLM. To bypass, set `--allow-deprecated-quantization`."
        )
        raise refuses(str((text, method)))
    return method


def _agreed(
    checkpoint: CheckpointQuantization, flag: str | None, model_type: str | None, gpu: Gpu
) -> str | None:
    served = _served_as(checkpoint, flag, model_type, gpu)
    if served is not None:
        return served
    stated = checkpoint.method or None
    if flag is not None and flag != stated:
        raise refuses(
            f"Quantization method specified in the model config ({stated}) does not match the "
            f"quantization method specified in the `quantization` argument ({flag})."
        )
    return stated


def _served_as(
    checkpoint: CheckpointQuantization, flag: str | None, model_type: str | None, gpu: Gpu
) -> str | None:
    """The method that takes the checkpoint over, by the engine's order of preference."""
    stated = checkpoint.method
    if flag == "humming":
        if model_type == "gpt_oss" and stated == "mxfp4":
            raise refuses(
                "For gpt-oss model, use '--moe-backend humming' instead of "
                "'--quantization humming'."
            )
        return "humming"
    if stated == "gptq" and flag in _GPTQ_FLAGS:
        return "auto_gptq"
    if stated == "awq" and flag in _AWQ_FLAGS:
        return "auto_awq"
    if stated == "auto-round":
        return "inc"
    if flag == "moe_wna16" and _fits_moe_wna16(checkpoint, gpu):
        return "moe_wna16"
    return _modelopt_kind(checkpoint) or _special_kind(stated, flag, model_type)


def _modelopt_kind(checkpoint: CheckpointQuantization) -> str | None:
    if not checkpoint.method.startswith("modelopt"):
        return None
    holder = checkpoint.section.values
    if "quantization" in holder:
        holder = holder["quantization"]
        if not isinstance(holder, Mapping):
            return None
    algo = str(holder.get("quant_algo", "")).upper()
    if algo == "FP8":
        return "modelopt"
    if "FP4" in algo:
        return "modelopt_fp4"
    if "MXFP8" in algo:
        return "modelopt_mxfp8"
    return "modelopt_mixed" if algo == "MIXED_PRECISION" else None


def _special_kind(stated: str, flag: str | None, model_type: str | None) -> str | None:
    if stated in ("mxfp4", "gpt_oss_mxfp4") and model_type == "gpt_oss":
        return "gpt_oss_mxfp4"
    if stated in ("fp8", "deepseek_v4_fp8") and (
        model_type in _DEEPSEEK_V4_TYPES or flag == "deepseek_v4_fp8"
    ):
        return "deepseek_v4_fp8"
    return None


def _fits_moe_wna16(checkpoint: CheckpointQuantization, gpu: Gpu) -> bool:
    bits = checkpoint.section.optional_integer("bits")
    if checkpoint.method == "awq":
        return bits == 4 and gpu.capability >= (7, 5)
    if checkpoint.method != "gptq" or bits not in (4, 8):
        return False
    return not _orders_activations(checkpoint.section)


def _orders_activations(section: HfConfig) -> bool:
    """Whether any rule of a GPTQ checkpoint reorders groups, which the kernels lack."""
    group_size = section.optional_integer("group_size")
    ordered = bool(section.raw("desc_act"))
    if ordered and group_size != -1:
        return True
    dynamic = section.raw("dynamic")
    rules = dynamic if isinstance(dynamic, Mapping) else {}
    return any(
        rule.get("desc_act", ordered) and rule.get("group_size", group_size) != -1
        for pattern, rule in rules.items()
        if not pattern.startswith("-:") and isinstance(rule, Mapping)
    )
