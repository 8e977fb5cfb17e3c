"""Encoders whose linear layers take the checkpoint's format where its config excepts none.

Others stay in the model dtype whatever the config says. Source: vLLM 0.33.0: whether a model's
constructor hands its ``quant_config`` to the tower; what it built from configs in fp8 without
exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.ranks import Site

_NAMES: Final = """
    Alpamayo2Super ClefFlashForJointSchema Cosmos3ForConditionalGeneration DeepseekOCRForCausalLM
    Gemma3ForConditionalGeneration Glm4vForConditionalGeneration
    Glm4vMoeForConditionalGeneration GlmOcrForConditionalGeneration H2OVLChatModel
    InternVLChatModel LlavaForConditionalGeneration MiDashengLMModel
    Molmo2ForConditionalGeneration MossAudioModel Phi3VForCausalLM Qwen2VLForConditionalGeneration
    Qwen2_5_VLForConditionalGeneration Qwen3VLForConditionalGeneration
    Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration
    Qwen3_5MoeForConditionalGeneration
    """
# Of ears and eyes, the eyes alone.
_EYES: Final = """
    ClefOmniForJointSchema Qwen2_5OmniForConditionalGeneration Qwen3OmniMoeForConditionalGeneration
    """
_TOWERS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(_NAMES.split(), (0,)),
    **dict.fromkeys(_EYES.split(), (1,)),
}
# Exceptions that touch no encoder.
_HEAD: Final = frozenset({"lm_head", "re:.*lm_head", "re:.*lm_head.*"})


def formatted_towers(architecture: str) -> tuple[int, ...]:
    """Which of a class's towers, by their places in its row, are built in the format."""
    return _TOWERS.get(architecture, ())


def excepts_none(site: Site) -> bool:
    """Whether the format is fp8, in one scale a matrix, and excepts nothing but the head."""
    quantization = None if site.settings is None else site.settings.quantization
    excepted = frozenset(site.scheme.ignored.names) - _HEAD
    return quantization == "fp8" and site.scheme.linear_block is None and not excepted
