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
    engine's checks. worded: the refusal says what does not divide. words: or this."""

    section: tuple[str, ...] = ("vision_config",)
    keys: tuple[str, ...] = ("num_attention_heads",)
    worded: bool = True
    words: str | None = None


_HEADS = Tower()
_NUM_HEADS = Tower(keys=("num_heads",))
_WORDLESS = Tower(worded=False)

_LIBRARY_ENCODER = Tower(section=("audio_config",), keys=("encoder_attention_heads",), worded=False)
_OVIS = Tower(section=("vit_config",))
_PERCEPTION = Tower(keys=("heads",), words="embed_dim must be divisible by num_heads")
_OMNI = Tower(section=("thinker_config", "vision_config"), keys=("num_heads",))

TOWERS = {
    "AriaForConditionalGeneration": _WORDLESS,
    "BagelForConditionalGeneration": Tower(section=("vit_config",)),
    "BailingMoeV3VLForConditionalGeneration": _NUM_HEADS,
    "Blip2ForConditionalGeneration": _HEADS,
    "CLIPModel": _HEADS,
    "Cohere2VisionForConditionalGeneration": _HEADS,
    "DotsOCRForCausalLM": _HEADS,
    "Eagle2_5_VLForConditionalGeneration": _HEADS,
    "Emu3ForConditionalGeneration": Tower(section=("vq_config",)),
    "Exaone4_5_ForConditionalGeneration": Tower(keys=("num_key_value_heads",), worded=False),
    "FunAudioChatForConditionalGeneration": Tower(
        section=("audio_config",), keys=("encoder_attention_heads",)
    ),
    "Gemma3ForConditionalGeneration": _HEADS,
    "GLM4VForCausalLM": _NUM_HEADS,
    "Glm4vForConditionalGeneration": _NUM_HEADS,
    "Glm4vMoeForConditionalGeneration": _NUM_HEADS,
    "GlmAsrForConditionalGeneration": Tower(section=("audio_config",)),
    "GraniteSpeechForConditionalGeneration": Tower(
        section=("encoder_config",), keys=("output_dim",)
    ),
    "Idefics3ForConditionalGeneration": _WORDLESS,
    "InternS1ProForConditionalGeneration": _NUM_HEADS,
    "IsaacForConditionalGeneration": _HEADS,
    "KananaVForConditionalGeneration": _NUM_HEADS,
    "KeyeForConditionalGeneration": _WORDLESS,
    "KeyeVL1_5ForConditionalGeneration": _WORDLESS,
    "LightOnOCRForConditionalGeneration": _HEADS,
    "Llama4ForConditionalGeneration": Tower(keys=("hidden_size", "num_attention_heads")),
    "LlavaForConditionalGeneration": _HEADS,
    "LlavaNextForConditionalGeneration": _HEADS,
    "LlavaNextVideoForConditionalGeneration": _HEADS,
    "LlavaOnevision2ForConditionalGeneration": _HEADS,
    "LlavaOnevisionForConditionalGeneration": _HEADS,
    "MiDashengLMModel": Tower(section=("audio_encoder_config",), keys=("num_heads",), worded=False),
    "MiMoV2OmniForCausalLM": Tower(keys=("num_heads", "num_key_value_heads")),
    "MiniCPMO": _WORDLESS,
    "MiniCPMOcrForConditionalGeneration": _WORDLESS,
    "MiniCPMV": _WORDLESS,
    "MiniCPMV4_6ForConditionalGeneration": _WORDLESS,
    "MiniCPMV4_7ForConditionalGeneration": _WORDLESS,
    "Mistral3ForConditionalGeneration": _HEADS,
    "OpenCUAForConditionalGeneration": _NUM_HEADS,
    "OpenPanguVLForConditionalGeneration": _NUM_HEADS,
    "Ovis": Tower(section=("visual_tokenizer_config", "backbone_config")),
    "Ovis2_5": _OVIS,
    "Ovis2_6ForCausalLM": _OVIS,
    "Ovis2_6_MoeForCausalLM": _OVIS,
    "PixtralForConditionalGeneration": _HEADS,
    "Qwen2VLForConditionalGeneration": _NUM_HEADS,
    "Qwen2_5OmniForConditionalGeneration": _OMNI,
    "Qwen2_5OmniModel": _OMNI,
    "Qwen2_5_VLForConditionalGeneration": _NUM_HEADS,
    "Qwen3OmniMoeForConditionalGeneration": _OMNI,
    "Qwen3VLForConditionalGeneration": _NUM_HEADS,
    "Qwen3VLMoeForConditionalGeneration": _NUM_HEADS,
    "SmolVLMForConditionalGeneration": _WORDLESS,
    "Step3VLForConditionalGeneration": _WORDLESS,
    "Step3p7ForConditionalGeneration": _PERCEPTION,
    "Step5ForConditionalGeneration": _PERCEPTION,
    "StepVLForConditionalGeneration": _PERCEPTION,
    "UltravoxModel": _LIBRARY_ENCODER,
    "VoxtralForConditionalGeneration": _LIBRARY_ENCODER,
    "VoxtralRealtimeGeneration": _LIBRARY_ENCODER,
}


def check_tower(architecture: str, config: HfConfig, tensor_parallel_size: int) -> None:
    """Refuse a tower that cannot be shared out over the ranks.

    Raises: EngineRefusalError; MissingFieldError where the config does not say.
    """
    if architecture == _MOSS_AUDIO:
        _check_moss_audio(config, tensor_parallel_size)
    tower = TOWERS.get(architecture)
    if tower is None or tensor_parallel_size == 1:
        return
    part = config
    for name in tower.section:
        part = part.section(name)
    for key in tower.keys:
        size = part.positive(key)
        if size % tensor_parallel_size:
            words = tower.words or f"{size} is not divisible by {tensor_parallel_size}"
            raise model_refusal("AssertionError", words if tower.worded else "")


_MOSS_AUDIO = "MossAudioModel"


def _check_moss_audio(config: HfConfig, tensor_parallel_size: int) -> None:
    """MOSS-Audio looks before it builds, and says more."""
    for part, key in (
        (config, "adapter_hidden_size"),
        (config.section("audio_config"), "encoder_attention_heads"),
    ):
        size = part.positive(key)
        if size % tensor_parallel_size:
            raise model_refusal(
                "ValueError",
                f"MOSS-Audio {key} must be divisible by tensor parallel size. Got {key}={size} "
                f"and tensor_parallel_size={tensor_parallel_size}.",
            )
