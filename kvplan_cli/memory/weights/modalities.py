"""Which modalities each encoder serves: one that may see none of its own is never loaded.

Source: vLLM 0.33.0 ``models/interfaces.py:_mark_tower_model`` as the models' classes call it,
``config/multimodal.py:get_limit_per_prompt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvplan_cli.engine_args import EngineArgs

Modalities = frozenset[str]

_IMAGE: Final[Modalities] = frozenset({"image"})
_SEEN: Final[Modalities] = frozenset({"image", "video"})
_VIDEO: Final[Modalities] = frozenset({"video"})
_AUDIO: Final[Modalities] = frozenset({"audio"})
_CHUNK: Final[Modalities] = frozenset({"vision_chunk"})
_ALL: Final[Modalities] = _SEEN | _AUDIO

# One entry for all towers of a class, or one for each in the order of its row.
_NAMES: Final[Mapping[tuple[Modalities, ...], str]] = {
    (_IMAGE,): """
        AriaForConditionalGeneration BagelForConditionalGeneration
        BailingMoeV3VLForConditionalGeneration Blip2ForConditionalGeneration CLIPModel
        Cohere2VisionForConditionalGeneration CohereCompassForConditionalGeneration
        ColPaliForRetrieval ColUltraVBertForRetrieval DeepseekOCR2ForCausalLM
        DeepseekOCRForCausalLM DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration
        DeepseekVLV2ForCausalLM OpenVLAForActionPrediction
        DotsOCRForCausalLM Eagle2_5_VLForConditionalGeneration GLM4VForCausalLM
        Gemma3ForConditionalGeneration Granite4VisionForConditionalGeneration HfMoondream
        Idefics3ForConditionalGeneration IsaacForConditionalGeneration
        KananaVForConditionalGeneration
        KimiK3ForConditionalGeneration KimiVLForConditionalGeneration
        Lfm2VlForConditionalGeneration LightOnOCRForConditionalGeneration
        Llama4ForConditionalGeneration LlamaNemotronVLForSequenceClassification
        LlamaNemotronVLModel Llama_Nemotron_Nano_VL LlavaForConditionalGeneration
        LlavaNextForConditionalGeneration MiniCPMOcrForConditionalGeneration
        MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration
        Mistral3ForConditionalGeneration MolmoForCausalLM Moondream3ForCausalLM
        NemotronParseForConditionalGeneration OpenCUAForConditionalGeneration Ovis
        PaddleOCRVLForConditionalGeneration PaliGemmaForConditionalGeneration Phi3VForCausalLM
        Phi4ForCausalLMV PixtralForConditionalGeneration RadioMBartPrefixForCausalLM
        SiglipModel SkyworkR1VChatModel SmolVLMForConditionalGeneration
        Step3VLForConditionalGeneration Step3p7ForConditionalGeneration
        Step5ForConditionalGeneration StepVLForConditionalGeneration UnlimitedOCRForCausalLM
        """,
    (_SEEN,): """
        Alpamayo2Super BeeForConditionalGeneration ClefFlashForJointSchema ColQwen3 ColQwen3_5
        Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration
        D3ForSequenceClassification DiffusionGemmaForBlockDiffusion
        Ernie4_5_VLMoeForConditionalGeneration Exaone4_5_ForConditionalGeneration
        Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration
        Glm5NextForConditionalGeneration GlmOcrForConditionalGeneration H2OVLChatModel
        HCXVisionV2ForCausalLM InternS1ForConditionalGeneration
        InternS1ProForConditionalGeneration InternS2MobiusForConditionalGeneration
        InternS2PreviewForConditionalGeneration InternVLChatModel
        InternVLForConditionalGeneration JinaVLForRanking KeyeForConditionalGeneration
        KeyeVL1_5ForConditionalGeneration LlavaOnevision2ForConditionalGeneration
        LlavaOnevisionForConditionalGeneration MiniCPMV
        MiniMaxM3SparseForConditionalGeneration Molmo2ForConditionalGeneration
        MuseGlimmerForConditionalGeneration NVLM_D OpenPanguVLForConditionalGeneration
        OpsColQwen3Model Ovis2_5 Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM
        QianfanOCRForConditionalGeneration Qwen2VLForConditionalGeneration
        Qwen2_5_VLForConditionalGeneration Qwen3VLForConditionalGeneration
        Qwen3VLMoeForConditionalGeneration Qwen3VLNemotronEmbedModel
        Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration
        Qwen4ExpForConditionalGeneration RForConditionalGeneration
        """,
    (_VIDEO,): "LlavaNextVideoForConditionalGeneration",
    (_CHUNK,): "KimiK25ForConditionalGeneration",
    (_AUDIO,): """
        AudioFlamingo3ForConditionalGeneration CohereAsrForConditionalGeneration
        FireRedASR2ForConditionalGeneration FunAudioChatForConditionalGeneration
        GlmAsrForConditionalGeneration GraniteSpeechForConditionalGeneration
        GraniteSpeechPlusForConditionalGeneration MiDashengLMModel MoonshotKimiaForCausalLM
        MossAudioModel
        MossTranscribeDiarizeForConditionalGeneration Qwen2AudioForConditionalGeneration
        Qwen3ASRForConditionalGeneration Qwen3ASRForcedAlignerForTokenClassification
        Qwen3ASRRealtimeGeneration UltravoxModel VoxtralForConditionalGeneration
        VoxtralRealtimeGeneration
        """,
    (_ALL,): """
        Dots3NoteForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2
        NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3
        """,
    (_AUDIO, _SEEN): """
        ClefOmniForJointSchema Qwen2_5OmniForConditionalGeneration
        Qwen3OmniMoeForConditionalGeneration
        """,
    (_IMAGE, _AUDIO): "Gemma3nForConditionalGeneration",
    (_SEEN, _AUDIO): """
        Gemma4ForConditionalGeneration MiMoV2OmniForCausalLM MiniCPMO
        MuseSparkForConditionalGeneration Phi4MMForCausalLM
        """,
}
MODALITIES: Final[Mapping[str, tuple[Modalities, ...]]] = MappingProxyType(
    {name: served for served, names in _NAMES.items() for name in names.split()}
)


def served_by(architecture: str) -> tuple[Modalities, ...]:
    """What each tower of a class serves; any of all modalities for a class that is not named."""
    return MODALITIES.get(architecture, (_ALL,))


def loads_towers(args: EngineArgs, architecture: str) -> bool:
    """Whether a start of this class loads any of its encoders."""
    return any(map(args.serves, frozenset().union(*served_by(architecture))))
