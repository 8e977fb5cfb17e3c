"""Vision and audio towers whose heads tensor parallelism cannot share out.

A wrapper builds its tower before its language model, so the tower's refusal comes first.
Towers that every rank holds whole are not listed. Source: vLLM 0.33.0
``vllm/model_executor/models``, the encoder of each architecture named here.
"""

from __future__ import annotations

from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """What is shared out. section: path in the config. keys: fields, in the order of the
    engine's checks. worded: the refusal says what does not divide."""

    section: tuple[str, ...] = ("vision_config",)
    keys: tuple[str, ...] = ("num_attention_heads",)
    worded: bool = True


_HEADS = Tower()
_NUM_HEADS = Tower(keys=("num_heads",))
_WORDLESS = Tower(worded=False)

TOWERS = {
    "AriaForConditionalGeneration": _WORDLESS,
    "BagelForConditionalGeneration": Tower(section=("vit_config",)),
    "Blip2ForConditionalGeneration": _HEADS,
    "CLIPModel": _HEADS,
    "Cohere2VisionForConditionalGeneration": _HEADS,
    "Emu3ForConditionalGeneration": Tower(section=("vq_config",)),
    "Exaone4_5_ForConditionalGeneration": Tower(keys=("num_key_value_heads",), worded=False),
    "Gemma3ForConditionalGeneration": _HEADS,
    "Glm4vForConditionalGeneration": _NUM_HEADS,
    "GlmAsrForConditionalGeneration": Tower(section=("audio_config",)),
    "GraniteSpeechForConditionalGeneration": Tower(
        section=("encoder_config",), keys=("output_dim",)
    ),
    "Idefics3ForConditionalGeneration": _WORDLESS,
    "Llama4ForConditionalGeneration": Tower(keys=("hidden_size", "num_attention_heads")),
    "LlavaForConditionalGeneration": _HEADS,
    "LlavaNextForConditionalGeneration": _HEADS,
    "LlavaNextVideoForConditionalGeneration": _HEADS,
    "LlavaOnevisionForConditionalGeneration": _HEADS,
    "Mistral3ForConditionalGeneration": _HEADS,
    "Qwen2VLForConditionalGeneration": _NUM_HEADS,
    "Qwen2_5OmniForConditionalGeneration": Tower(
        section=("thinker_config", "vision_config"), keys=("num_heads",)
    ),
    "Qwen2_5_VLForConditionalGeneration": _NUM_HEADS,
    "Qwen3VLForConditionalGeneration": _NUM_HEADS,
    "Qwen3VLMoeForConditionalGeneration": _NUM_HEADS,
    "SmolVLMForConditionalGeneration": _WORDLESS,
}


def check_tower(architecture: str, config: HfConfig, tensor_parallel_size: int) -> None:
    """Refuse a tower that cannot be shared out over the ranks.

    Raises: EngineRefusalError; MissingFieldError where the config does not say.
    """
    tower = TOWERS.get(architecture)
    if tower is None or tensor_parallel_size == 1:
        return
    part = config
    for name in tower.section:
        part = part.section(name)
    for key in tower.keys:
        size = part.positive(key)
        if size % tensor_parallel_size:
            words = f"{size} is not divisible by {tensor_parallel_size}"
            raise model_refusal("AssertionError", words if tower.worded else "")
