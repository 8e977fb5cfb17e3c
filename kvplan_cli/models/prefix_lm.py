"""Whether a model's multimodal tokens attend both ways.

Source: vLLM 0.33.0 ``transformers_utils/model_arch_config_convertor.py:is_mm_prefix_lm``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.text import text_config

_PREFIX_LM_TYPES: Final = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma")
_BY_TEXT_SWITCH: Final = ("diffusion_gemma", "gemma4", "gemma4_unified")


def is_mm_prefix_lm(config: HfConfig) -> bool:
    """Of a multimodal model's whole config, before flags that switch modalities off.

    Raises MissingFieldError where only the config class tells (Gemma 4 Unified).
    """
    model_type = config.optional_text("model_type")
    if model_type in _BY_TEXT_SWITCH:
        part = text_config(config)
        if model_type == "gemma4_unified" and _SWITCH not in part.values:
            raise MissingFieldError(part.where(_SWITCH), part.origin)
        return bool(part.raw(_SWITCH) == "vision")
    if model_type == "deepseek_v4":
        return bool(config.optional_integer("vision_n_layers"))
    if "is_mm_prefix_lm" in config.values:
        return bool(config.raw("is_mm_prefix_lm"))
    return model_type in _PREFIX_LM_TYPES


_SWITCH: Final = "use_bidirectional_attention"
