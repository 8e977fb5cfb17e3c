"""Which modules of a class take LoRA adapters, beside its linears and mixtures.

Only classes whose room was held against the engine's. Source: vLLM 0.33.0, the classes'
``embedding_modules``, ``packed_modules_mapping`` and ``is_3d_moe_weight``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """How a class differs from one whose linears alone are adapted; see ``Adapters``.

    bare: what stands in modules of the library's own, or takes no wrapper.
    """

    embedding: bool = False
    head: bool = False
    single: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    one_up: bool = False


_MERGED: Final = frozenset({"qkv_proj", "gate_up_proj"})
_LINEARS: Final = Adapted()
_EMBEDDING: Final = Adapted(embedding=True)
_BOTH: Final = Adapted(embedding=True, head=True)

_ROWS: Final = (
    (
        _BOTH,
        """
        Alpamayo2Super ApertusForCausalLM Cosmos3ForConditionalGeneration
        D3ForSequenceClassification Ernie4_5ForCausalLM Exaone4ForCausalLM
        Exaone4_5_ForConditionalGeneration ExaoneForCausalLM ExaoneMoEForCausalLM
        ExaoneMoeForCausalLM FalconH1ForCausalLM GlmAsrForConditionalGeneration
        Granite4VisionForConditionalGeneration GraniteForCausalLM GraniteMoeForCausalLM
        GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM GraniteSWAForCausalLM
        HyperCLOVAXForCausalLM IQuestCoderForCausalLM InternLM3ForCausalLM
        IsaacForConditionalGeneration JinaEmbeddingsV5Model KeyeForConditionalGeneration
        KeyeVL1_5ForConditionalGeneration LLaMAForCausalLM Lfm2ForCausalLM
        Lfm2MoeForCausalLM LightOnOCRForConditionalGeneration Llama4ForCausalLM
        Llama4ForConditionalGeneration LlamaBidirectionalForSequenceClassification
        LlamaBidirectionalModel LlamaForCausalLM LlamaForSequenceClassification LlamaModel
        MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMOcrForConditionalGeneration
        MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration MistralModel
        MixtralForCausalLM MossAudioModel NemotronForCausalLM NemotronH_Nano_VL_V2
        PhiMoEForCausalLM Qwen3ASRForConditionalGeneration Qwen3ASRRealtimeGeneration
        Qwen3ForCausalLM Qwen3Model Qwen3MoeForCausalLM Qwen3VLForConditionalGeneration
        Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM
        SolarForCausalLM TeleChat3ForCausalLM TeleFLMForCausalLM
        """,
    ),
    (
        _LINEARS,
        """
        AXK1ForCausalLM AfmoeForCausalLM AudioFlamingo3ForConditionalGeneration
        BertForTokenClassification BertModel DeepseekForCausalLM DeepseekOCR2ForCausalLM
        DeepseekOCRForCausalLM DeepseekV2ForCausalLM DeepseekV3BidirectionalModel
        DeepseekV3ForCausalLM DotsOCRForCausalLM Ernie4_5_MoeForCausalLM Gemma2ForCausalLM
        Gemma2Model Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM
        Gemma4ForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM
        Glm4MoeLiteForCausalLM Glm4vMoeForConditionalGeneration
        Idefics3ForConditionalGeneration LagunaForCausalLM MiMoForCausalLM
        Ministral3ForCausalLM MistralForCausalLM MistralLarge3ForCausalLM
        MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration OPTForCausalLM
        OlmoHybridForCausalLM OlmoeForCausalLM OpenCUAForConditionalGeneration
        OpenPanguVLForConditionalGeneration PanguEmbeddedForCausalLM
        PanguUltraMoEForCausalLM Qwen2ForCausalLM Qwen2ForProcessRewardModel
        Qwen2ForRewardModel Qwen2Model Qwen2MoeForCausalLM Qwen2VLForConditionalGeneration
        Qwen2_5OmniForConditionalGeneration Qwen2_5OmniModel
        Qwen2_5_VLForConditionalGeneration RobertaForMaskedLM RobertaModel
        SarvamMLAForCausalLM SmolVLMForConditionalGeneration UnlimitedOCRForCausalLM
        VoxtralRealtimeGeneration XLMRobertaModel
        """,
    ),
    (
        _EMBEDDING,
        """
        ArceeForCausalLM Cohere2ForCausalLM CohereCompassForConditionalGeneration
        CohereForCausalLM CwmForCausalLM FlexOlmoForCausalLM
        GlmForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
        HunYuanVLForConditionalGeneration Jais2ForCausalLM MellumForCausalLM
        NanbeigeForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM OlmoForCausalLM PhiForCausalLM
        SeedOssForCausalLM SmolLM3ForCausalLM Starcoder2ForCausalLM VaultGemmaForCausalLM
        """,
    ),
    (
        replace(_LINEARS, single=_MERGED),
        """
        ChatGLMForConditionalGeneration ChatGLMModel GLM4VForCausalLM ModernBertModel
        Molmo2ForConditionalGeneration MolmoForCausalLM Phi4MMForCausalLM Plamo3ForCausalLM
        """,
    ),
    (
        replace(_LINEARS, single=frozenset({"qkv_proj"})),
        """
        BailingMoeForCausalLM BailingMoeV2ForCausalLM GPTNeoXForCausalLM
        InternLM2ForCausalLM InternLM2ForRewardModel SarvamMoEForCausalLM
        """,
    ),
    (
        replace(_BOTH, bare=frozenset({"custom_text_proj"})),
        """
        ColQwen3 ColQwen3_5 OpsColQwen3Model Qwen3VLNemotronEmbedModel
        """,
    ),
    (
        replace(_BOTH, one_up=True),
        """
        InternS1ProForConditionalGeneration InternS2PreviewForConditionalGeneration
        Qwen3OmniMoeForConditionalGeneration Qwen3VLMoeForConditionalGeneration
        """,
    ),
    (
        replace(_BOTH, bare=frozenset({"gate"})),
        """
        NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Omni_Reasoning_V3
        NemotronH_Super_Omni_Reasoning_V3
        """,
    ),
    (
        replace(_LINEARS, bare=frozenset({"wk_weights_proj"})),
        """
        DeepseekV32ForCausalLM GlmMoeDsaForCausalLM
        """,
    ),
    (
        replace(_LINEARS, single=frozenset({"gate_up_proj"})),
        """
        Glm4vForConditionalGeneration GlmOcrForConditionalGeneration
        """,
    ),
    (
        replace(_LINEARS, bare=frozenset({"fused_qkv_a_proj"})),
        """
        LongcatFlashForCausalLM LongcatFlashNgramForCausalLM
        """,
    ),
    (
        replace(_LINEARS, bare=frozenset({"classifier.dense", "classifier.out_proj"})),
        """
        RobertaForSequenceClassification XLMRobertaForSequenceClassification
        """,
    ),
    (replace(_LINEARS, bare=frozenset({"pooler.dense"})), "BertForSequenceClassification"),
    (
        replace(_LINEARS, bare=frozenset({"mlm_head.decoder", "mlm_head.dense"})),
        "BertSpladeSparseEmbeddingModel",
    ),
    (replace(_LINEARS, bare=frozenset({"colbert_linear", "sparse_linear"})), "BgeM3EmbeddingModel"),
    (replace(_LINEARS, bare=frozenset({"custom_text_proj"})), "ColPaliForRetrieval"),
    (replace(_LINEARS, bare=frozenset({"qkv_proj"})), "GPTBigCodeForCausalLM"),
    (
        replace(_LINEARS, bare=frozenset({"embed_audio", "embed_vision", "patch_dense"})),
        "Gemma4UnifiedForConditionalGeneration",
    ),
    (replace(_LINEARS, one_up=True), "GptOssForCausalLM"),
    (replace(_BOTH, single=frozenset({"gate_up_proj"})), "GraniteMoeHybridForCausalLM"),
    (replace(_BOTH, single=frozenset({"in_proj"})), "JambaForCausalLM"),
    (
        replace(_BOTH, single=frozenset({"in_proj"}), bare=frozenset({"score"})),
        "JambaForSequenceClassification",
    ),
    (replace(_LINEARS, bare=frozenset({"score.dense", "score.out_proj"})), "JinaVLForRanking"),
    (replace(_EMBEDDING, bare=frozenset({"gate"})), "Kolibri1ForCausalLM"),
    (replace(_BOTH, single=frozenset({"qkv_proj"})), "Param2MoEForCausalLM"),
    (replace(_BOTH, single=_MERGED), "Phi3ForCausalLM"),
    (replace(_BOTH, bare=frozenset({"classifier"})), "Qwen3ASRForcedAlignerForTokenClassification"),
    (replace(_LINEARS, single=frozenset({"in_proj_ba", "in_proj_qkvz"})), "Qwen3NextForCausalLM"),
    (replace(_LINEARS, bare=frozenset({"linear"})), "VoyageQwen3BidirectionalEmbedModel"),
)
ADAPTED: Final[Mapping[str, Adapted]] = {
    name: adapted for adapted, names in _ROWS for name in names.split()
}
_INHERITING: Final = """
Blip2ForConditionalGeneration Eagle2_5_VLForConditionalGeneration
GraniteSpeechForConditionalGeneration GraniteSpeechPlusForConditionalGeneration H2OVLChatModel
InternS1ForConditionalGeneration InternVLChatModel InternVLForConditionalGeneration
Lfm2VlForConditionalGeneration LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel
Llama_Nemotron_Nano_VL LlavaForConditionalGeneration LlavaNextForConditionalGeneration
LlavaNextVideoForConditionalGeneration MiniCPMO MiniCPMV Mistral3ForConditionalGeneration NVLM_D
PaliGemmaForConditionalGeneration PixtralForConditionalGeneration
QianfanOCRForConditionalGeneration UltravoxModel VoxtralForConditionalGeneration
"""
# Multimodal models that are adapted as the class is that their config names for the language.
INHERITING: Final = frozenset(_INHERITING.split())


def adapted_modules(architecture: str, inner: str | None) -> Adapted | None:
    """The row of a class, None where there is none. inner: the language model's class."""
    if architecture in INHERITING:
        return None if inner is None else ADAPTED.get(inner)
    return ADAPTED.get(architecture)
