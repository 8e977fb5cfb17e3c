"""The element type of weights and activations.

Source: vLLM 0.33.0 ``vllm/config/model.py:_get_and_verify_dtype``,
``vllm/platforms/cuda.py:CudaPlatformBase.supported_dtypes``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.refusal import check_one_of, refuses

_FLAG_VALUES: Final = ("auto", "half", "float16", "bfloat16", "float", "float32")
# Families that overflow in float16.
_NO_FLOAT16: Final = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4"})
# Other names that torch has for its types.
_TORCH_ALIASES: Final = {"half": "float16", "float": "float32", "double": "float64"}


def model_dtype(config: HfConfig, flag: str, runner_type: RunnerType, gpu: Gpu) -> DType:
    """The type that the engine computes in. flag: ``--dtype``.

    A config that names no type counts as float32, which ``auto`` never keeps.
    """
    check_one_of("dtype", flag, _FLAG_VALUES)
    model_type = config.optional_text("model_type") or ""
    if flag == "auto":
        return _automatic(checkpoint_dtype(config), model_type, runner_type, gpu)
    dtype = DType.from_name(flag)
    if dtype is DType.FLOAT16 and model_type in _NO_FLOAT16:
        raise refuses(
            f"The model type {model_type!r} does not support float16. Reason: Numerical "
            "instability. Please use bfloat16 or float32 instead."
        )
    return dtype


def checkpoint_dtype(config: HfConfig) -> DType:
    """The type that the config states for the weights; float32 where it states none."""
    parts = [config, text_config(config)]
    parts += [part for name in _OTHER_PARTS if (part := config.optional_section(name))]
    for part in parts:
        for key in ("dtype", "torch_dtype"):
            name = part.optional_text(key)
            if name is not None:
                return _parsed(part, key, name)
    return DType.FLOAT32


# Where a multimodal config may state the type instead.
_OTHER_PARTS: Final = ("vision_config", "encoder_config")


def _parsed(part: HfConfig, key: str, name: str) -> DType:
    name = _TORCH_ALIASES.get(name, name)
    for dtype in DType:
        if dtype.torch_name == name:
            return dtype
    raise part.wrong(key, "a torch dtype", "e.g. bfloat16")


def _automatic(stated: DType, model_type: str, runner_type: RunnerType, gpu: Gpu) -> DType:
    supported = [
        dtype
        for dtype in supported_dtypes(gpu)
        if not (dtype is DType.FLOAT16 and model_type in _NO_FLOAT16)
    ]
    preferred = supported[0]
    if runner_type is RunnerType.POOLING and DType.FLOAT16 in supported:
        preferred = DType.FLOAT16
    if stated is DType.FLOAT32 or stated not in supported:
        return preferred
    return stated


def supported_dtypes(gpu: Gpu) -> tuple[DType, ...]:
    """The types that a card computes in, the preferred one first."""
    if gpu.capability >= (8, 0):
        return (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)
    if gpu.capability >= (6, 0):
        return (DType.FLOAT16, DType.FLOAT32)
    return (DType.FLOAT32,)
