"""Multimodal models around a language model: which one, and where its layers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped, multimodal
from kvplan_cli.models.gemma import images_only
from kvplan_cli.models.heads import equal_heads, split_heads
from kvplan_cli.models.llama_like import GROUPED, LLAMA, QWEN2, QWEN3
from kvplan_cli.models.own_rules import COMPASS, PANGU
from kvplan_cli.models.reach import unwindowed
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.models.windowed import MIMO_V2, WINDOWED

_OWN_CHOICE: Final = Wrapped()
_CLIP: Final = Decoder(
    layer_name="encoder.layers.{}.self_attn.attn",
    heads=equal_heads,
    reach=unwindowed,
    ignores_cache_config=True,
)
_MOLMO: Final = Decoder(heads=split_heads)
_MOONDREAM: Final = Decoder(layer_name="text.blocks.{}.attn.attn", heads=split_heads)
_BARE_QWEN3: Final = replace(QWEN3, layer_name="layers.{}.self_attn.attn")
# The window of Unlimited-OCR where the file has none.
# Source: vLLM 0.33.0 ``models/config.py:UnlimitedOCRForCausalLMConfig``.
_UNLIMITED_WINDOW: Final = 128


def whole(config: HfConfig) -> HfConfig:
    """A config that is its own language part."""
    return config


def unlimited_ocr_part(config: HfConfig) -> HfConfig:
    """The language part, with the window that the whole config states."""
    window = config.optional_integer("rswa_window", minimum=1)
    part = text_config(config)
    return part.with_value("rswa_window", _UNLIMITED_WINDOW if window is None else window)


def _images_and_videos(config: HfConfig) -> tuple[str, ...]:
    return ("image", "video")


ROWS: Final[Sequence[Architecture]] = (
    # The engine takes the language model that the part itself names.
    *multimodal(
        _OWN_CHOICE,
        "BeeForConditionalGeneration",
        "Blip2ForConditionalGeneration",
        "Cohere2VisionForConditionalGeneration",
        "DeepseekOCR2ForCausalLM",
        "DeepseekOCRForCausalLM",
        "Eagle2_5_VLForConditionalGeneration",
        "GraniteSpeechForConditionalGeneration",
        "GraniteSpeechPlusForConditionalGeneration",
        "H2OVLChatModel",
        "HCXVisionV2ForCausalLM",
        "InternS1ForConditionalGeneration",
        "InternVLChatModel",
        "InternVLForConditionalGeneration",
        "LightOnOCRForConditionalGeneration",
        "Llama_Nemotron_Nano_VL",
        "LlavaForConditionalGeneration",
        "LlavaNextForConditionalGeneration",
        "LlavaNextVideoForConditionalGeneration",
        "LlavaOnevisionForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "NVLM_D",
        "OpenVLAForActionPrediction",
        "PixtralForConditionalGeneration",
        "QianfanOCRForConditionalGeneration",
        "RForConditionalGeneration",
        "SkyworkR1VChatModel",
        "Step3VLForConditionalGeneration",
        "Step3p7ForConditionalGeneration",
        "StepVLForConditionalGeneration",
        "UltravoxModel",
        "VoxtralForConditionalGeneration",
    ),
    *multimodal(Wrapped(prefix="llm."), "Ovis", "Ovis2_5", "Ovis2_6ForCausalLM"),
    *multimodal(Wrapped(prefix="llm."), "Ovis2_6_MoeForCausalLM"),
    # It builds one language model, whatever the part names.
    *multimodal(
        Wrapped(inner=QWEN2),
        "AudioFlamingo3ForConditionalGeneration",
        "DotsOCRForCausalLM",
        "OpenCUAForConditionalGeneration",
        "Qwen2AudioForConditionalGeneration",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5OmniForConditionalGeneration",
        "Qwen2_5OmniModel",
        "Qwen2_5_VLForConditionalGeneration",
    ),
    Architecture(
        name="BagelForConditionalGeneration",
        model=Wrapped(inner=QWEN2),
        is_multimodal=True,
        modalities=images_only,
    ),
    *multimodal(Wrapped(inner=QWEN2, prefix="decoder."), "MiDashengLMModel"),
    *multimodal(Wrapped(inner=QWEN2), "MoonshotKimiaForCausalLM"),
    *multimodal(
        Wrapped(inner=QWEN3),
        "Alpamayo2Super",
        "Cosmos3ForConditionalGeneration",
        "FunAudioChatForConditionalGeneration",
        "LlavaOnevision2ForConditionalGeneration",
        "MossTranscribeDiarizeForConditionalGeneration",
        "Qwen3ASRForConditionalGeneration",
        "Qwen3ASRRealtimeGeneration",
        "MossAudioModel",
        "Qwen3VLForConditionalGeneration",
    ),
    *multimodal(
        Wrapped(inner=QWEN3),
        "IsaacForConditionalGeneration",
        "KeyeForConditionalGeneration",
        "KeyeVL1_5ForConditionalGeneration",
    ),
    *multimodal(
        Wrapped(inner=GROUPED),
        "Glm4vForConditionalGeneration",
        "InternS1ProForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
        "GlmOcrForConditionalGeneration",
        "Qwen3OmniMoeForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
    ),
    *multimodal(Wrapped(inner=GROUPED), "Ernie4_5_VLMoeForConditionalGeneration"),
    *multimodal(Wrapped(inner=LLAMA), "GlmAsrForConditionalGeneration"),
    *multimodal(Wrapped(inner=LLAMA, prefix="model."), "KananaVForConditionalGeneration"),
    *multimodal(
        Wrapped(inner=LLAMA),
        "AriaForConditionalGeneration",
        "PaddleOCRVLForConditionalGeneration",
        supports_pp=False,
    ),
    *multimodal(
        Wrapped(inner=Decoder(layer_name="layers.{}.self_attn.attn"), prefix="model.text_model."),
        "Idefics3ForConditionalGeneration",
        "SmolVLMForConditionalGeneration",
        supports_pp=False,
    ),
    *multimodal(Wrapped(inner=LLAMA, prefix=""), "Phi3VForCausalLM"),
    *multimodal(Wrapped(inner=LLAMA, prefix=""), "Phi4MMForCausalLM", supports_pp=False),
    *multimodal(Wrapped(inner=LLAMA), "Phi4ForCausalLMV"),
    *multimodal(Wrapped(inner="GraniteForCausalLM"), "Granite4VisionForConditionalGeneration"),
    *multimodal(Wrapped(inner="Exaone4ForCausalLM"), "Exaone4_5_ForConditionalGeneration"),
    *multimodal(Wrapped(inner="Llama4ForCausalLM"), "Llama4ForConditionalGeneration"),
    *multimodal(Wrapped(inner=MIMO_V2), "MiMoV2OmniForCausalLM"),
    *multimodal(
        Wrapped(inner=Decoder(layer_name="model.layers.{}.mixer.attn", stride=2)),
        "Cosmos3EdgeForConditionalGeneration",
    ),
    *multimodal(
        Wrapped(inner=WINDOWED, prefix=""),
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
        "MuseSparkForConditionalGeneration",
    ),
    *multimodal(Wrapped(inner=_MOLMO, prefix=""), "MolmoForCausalLM"),
    Architecture(
        name="Molmo2ForConditionalGeneration",
        model=Wrapped(inner=GROUPED, prefix=""),
        is_multimodal=True,
        modalities=_images_and_videos,
    ),
    *(
        Architecture(
            name=name,
            model=Wrapped(inner=_MOONDREAM, prefix=""),
            is_multimodal=True,
            modalities=images_only,
        )
        for name in ("HfMoondream", "Moondream3ForCausalLM")
    ),
    *multimodal(Wrapped(inner=COMPASS), "CohereCompassForConditionalGeneration"),
    *multimodal(
        Wrapped(inner=PANGU, prefix="openpangu.language_model."),
        "OpenPanguVLForConditionalGeneration",
    ),
    *multimodal(
        Wrapped(inner="DeepseekV2ForCausalLM", part=unlimited_ocr_part), "UnlimitedOCRForCausalLM"
    ),
    *multimodal(
        Wrapped(inner=QWEN2, prefix="model.decoder.", part=whole),
        "FireRedASR2ForConditionalGeneration",
        supports_pp=False,
    ),
    *multimodal(
        Wrapped(inner=_BARE_QWEN3, prefix="model.decoder.", part=whole),
        "FunASRForConditionalGeneration",
        supports_pp=False,
    ),
    Architecture(
        name="CLIPModel",
        model=Wrapped(inner=_CLIP, prefix="text_model."),
        runner_type=RunnerType.POOLING,
        supports_pp=False,
        is_multimodal=True,
    ),
)
