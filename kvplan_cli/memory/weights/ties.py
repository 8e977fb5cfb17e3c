"""Whose ``tie_word_embeddings`` counts in a config of parts: the whole's, the language part's.

Source: vLLM 0.33.0 ``config/vllm.py:with_hf_config``, the models' constructors and their config
classes in the Transformers library.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import Flag

_KEY: Final = "tie_word_embeddings"


class Tying(Enum):
    """EITHER: either one ties the head. WHOLE: the whole's where it is stated. STATED: the whole's,
    whose class states it where the file does not. OWN: the language part's. NEVER: none."""

    EITHER = "either"
    WHOLE = "whole"
    STATED = "stated"
    OWN = "own"
    NEVER = "never"

    def of(self, config: HfConfig, tied: Flag) -> bool | None:
        """Whether the whole config ties the head; None where its language part says.

        tied: the whole's own flag, with its class's default.
        """
        match self:
            case Tying.EITHER:
                return True if tied(config) else None
            case Tying.WHOLE:
                return tied(config) if config.has(_KEY) else None
            case Tying.STATED:
                return tied(config)
            case Tying.OWN:
                return None
            case Tying.NEVER:
                return False


_NAMES: Final[Mapping[Tying, str]] = {
    Tying.WHOLE: """
        AudioFlamingo3ForConditionalGeneration ClefOmniForJointSchema
        Eagle2_5_VLForConditionalGeneration FunAudioChatForConditionalGeneration
        Gemma3ForConditionalGeneration Gemma4ForConditionalGeneration
        GlmAsrForConditionalGeneration GraniteSpeechForConditionalGeneration
        GraniteSpeechPlusForConditionalGeneration H2OVLChatModel InternVLChatModel
        LightOnOCRForConditionalGeneration LlavaOnevision2ForConditionalGeneration
        MiDashengLMModel Mistral3ForConditionalGeneration
        MossTranscribeDiarizeForConditionalGeneration NVLM_D Ovis Ovis2_5
        Ovis2_6ForCausalLM PaliGemmaForConditionalGeneration
        Qwen2AudioForConditionalGeneration Qwen2_5OmniForConditionalGeneration
        Qwen3ASRForConditionalGeneration Qwen3ASRRealtimeGeneration
        Qwen3OmniMoeForConditionalGeneration SkyworkR1VChatModel
        Step5ForConditionalGeneration StepVLForConditionalGeneration UltravoxModel
        """,
    Tying.STATED: """
        Alpamayo2Super Cosmos3ForConditionalGeneration Llama4ForConditionalGeneration
        LlavaNextForConditionalGeneration MossAudioModel
        QianfanOCRForConditionalGeneration Qwen3VLForConditionalGeneration
        Qwen3VLMoeForConditionalGeneration
        """,
    Tying.OWN: """
        ClefFlashForJointSchema ColQwen3_5 D3ForSequenceClassification
        Idefics3ForConditionalGeneration InternS2PreviewForConditionalGeneration
        MuseSparkForConditionalGeneration Qwen3_5ForConditionalGeneration
        Qwen3_5MoeForConditionalGeneration SmolVLMForConditionalGeneration
        """,
    Tying.NEVER: """
        BailingMoeV3VLForConditionalGeneration DeepseekOCR2ForCausalLM
        DeepseekOCRForCausalLM Glm4vMoeForConditionalGeneration
        KimiVLForConditionalGeneration MiniMaxM3SparseForConditionalGeneration
        Molmo2ForConditionalGeneration NemotronH_Nano_Omni_Reasoning_V3
        NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3
        Step3VLForConditionalGeneration UnlimitedOCRForCausalLM
        """,
}
_BY_NAME: Final[Mapping[str, Tying]] = MappingProxyType(
    {name: tying for tying, names in _NAMES.items() for name in names.split()}
)


def tying_of(architecture: str) -> Tying:
    return _BY_NAME.get(architecture, Tying.EITHER)
