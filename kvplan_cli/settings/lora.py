"""LoRA adapters: which architectures take them, and how many.

Source: vLLM 0.33.0 ``vllm/config/lora.py:LoRAConfig`` and the model classes' interfaces.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.settings.refusal import refuses

_NAMES: Final = """
AriaForConditionalGeneration BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM
BailingMoeV3VLForConditionalGeneration BeamForCausalLM BeeForConditionalGeneration
BertForMaskedLM BloomForCausalLM CLIPModel Cohere2MoeForCausalLM
Cohere2VisionForConditionalGeneration CohereAsrForConditionalGeneration ColBERTJinaRobertaModel
ColBERTLfm2Model ColBERTModernBertModel ColModernVBertForRetrieval ColUltraVBertForRetrieval
Cosmos3EdgeForConditionalGeneration DbrxForCausalLM DeepseekV41ForCausalLM
DeepseekVLV2ForCausalLM DiffusionGemmaForBlockDiffusion DomynEdgeForCausalLM DoryForCausalLM
Dots3NoteForCausalLM EmbeddingGemma2Model FalconForCausalLM FalconMambaForCausalLM
FireRedASR2ForConditionalGeneration FlintForCausalLM FunASRForConditionalGeneration
FunAudioChatForConditionalGeneration GPT2ForSequenceClassification GPT2LMHeadModel
GPTJForCausalLM Gemma3TextModel Gemma3nForCausalLM Gemma3nForConditionalGeneration
Glm5NextForCausalLM GteModel GteNewForSequenceClassification GteNewModel HCXVisionV2ForCausalLM
HfMoondream HrmTextForCausalLM IQuestLoopCoderForCausalLM JinaForRanking
KananaVForConditionalGeneration KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration
KimiLinearForCausalLM KimiVLForConditionalGeneration Lfm2BidirectionalModel
LlavaOnevision2ForConditionalGeneration LlavaOnevisionForConditionalGeneration Mamba2ForCausalLM
MambaForCausalLM MiDashengLMModel MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM
MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
ModernBertForSequenceClassification ModernBertForTokenClassification ModernVBertModel
Moondream3ForCausalLM MoonshotKimiaForCausalLM MossTranscribeDiarizeForConditionalGeneration
NemotronParseForConditionalGeneration NomicBertModel OpenAIPrivacyFilterForTokenClassification
OpenVLAForActionPrediction OrionForCausalLM Ovis Ovis2_5 Ovis2_6ForCausalLM
Ovis2_6_MoeForCausalLM PaddleOCRVLForConditionalGeneration Phi3VForCausalLM Phi4ForCausalLMV
Qwen2AudioForConditionalGeneration RForConditionalGeneration RadioMBartPrefixForCausalLM
RobertaForTokenClassification SiglipModel SkyworkR1VChatModel StableLmForCausalLM
Step1ForCausalLM Step3TextForCausalLM Step3VLForConditionalGeneration Step3p5ForCausalLM
Step3p7ForConditionalGeneration StepVLForConditionalGeneration Terratorch
XLMRobertaForTokenClassification Zamba2ForCausalLM
"""
# Classes of the engine that are served, and take no adapters.
WITHOUT_LORA: Final = frozenset(_NAMES.split())


def check_slots_on_host(args: EngineArgs) -> None:
    """Slots for adapters in the host's memory are no fewer than the card's."""
    on_host = args.max_cpu_loras or 0
    if args.enable_lora and 0 < on_host < args.max_loras:
        raise refuses(f"max_cpu_loras ({on_host}) must be >= max_loras ({args.max_loras}).")


def check_takes_adapters(args: EngineArgs, architecture: str) -> None:
    """The class is one whose modules may be adapted."""
    if args.enable_lora and architecture in WITHOUT_LORA:
        raise refuses(
            f"LoRA is not supported for {architecture}. Supported models implement the "
            "`SupportsLoRA` interface. Run this model without `enable_lora`.",
            way_out="drop --enable-lora",
        )
