"""Multimodal models that few people serve: which language model, which towers before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.families.bailing_hybrid import SEEING_BAILING_3
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK, OCR
from kvplan_cli.memory.weights.families.deepseek_v4 import SEEING_V4
from kvplan_cli.memory.weights.families.deepseek_v41 import DEEPSEEK_V41
from kvplan_cli.memory.weights.families.encoders import MODERNBERT
from kvplan_cli.memory.weights.families.gemma import GEMMA
from kvplan_cli.memory.weights.families.gemma_per_layer import GEMMA4, per_layer_inputs
from kvplan_cli.memory.weights.families.interns1_pro import INTERNS1_PRO
from kvplan_cli.memory.weights.families.llama_like import (
    ATTENTION_BIAS,
    CHATGLM,
    COHERE,
    LLAMA,
    QWEN2,
    QWEN3,
    QWEN3_VL,
)
from kvplan_cli.memory.weights.families.mixtures import MIXTURES, QWEN3_MOE
from kvplan_cli.memory.weights.families.mixtures_windowed import WINDOWED_MIXTURES
from kvplan_cli.memory.weights.families.mobius import MOBIUS
from kvplan_cli.memory.weights.families.muse_spark import MUSE_SPARK
from kvplan_cli.memory.weights.families.nemotron_h import NEMOTRON_H
from kvplan_cli.memory.weights.families.qwen4_exp import QWEN4_EXP
from kvplan_cli.memory.weights.families.rarer import ERNIE_VL, ISAAC, MBART, MOLMO, MOLMO2, TIMED
from kvplan_cli.memory.weights.families.states import JAMBA, QWEN3_5
from kvplan_cli.memory.weights.families.transformers_backend import TRANSFORMERS_BACKEND
from kvplan_cli.memory.weights.heads import jina_scorer, label_scores
from kvplan_cli.memory.weights.layers import given
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.rope import RopeTables, no_rope, of_listed_type
from kvplan_cli.memory.weights.towers import (
    audio,
    clip_like,
    deepseek,
    dual,
    glm,
    intern_vit,
    library,
    mimo,
    minicpm,
    moonvit,
    nemotron,
    others,
    projected,
    qwen,
    rarer,
    siglip_like,
    step,
)

_QWEN3_VL: Final = Wrapper(decoder=QWEN3_VL, towers=(qwen.qwen3_vl,))
_COL_QWEN3: Final = replace(_QWEN3_VL, kept=(dual.late_projection,), keeps_head=True)
_COMPASS: Final = replace(
    COHERE,
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    rope=no_rope,
)
_ULTRABERT: Final = replace(LLAMA, rope=RopeTables(adjust=of_listed_type), everywhere=True)
_HUNYUAN: Final = replace(
    TRANSFORMERS_BACKEND["HunYuanDenseV1ForCausalLM"],
    tied=given("tie_word_embeddings", absent=True),
)
_OVIS: Final = Wrapper(towers=(projected.ovis,))
_INTERN_CHAT: Final = Wrapper(towers=(intern_vit.intern_vl_chat,))
_STEP_VL: Final = Wrapper(towers=(step.perception,))
_QWEN3_5: Final = Wrapper(decoder=QWEN3_5, towers=(qwen.qwen3_vl,))

_DEEPSEEK_OCR: Final = Wrapper(decoder=OCR, towers=(deepseek.ocr,), kept=(deepseek.ocr_marks,))
_NEMOTRON_NANO: Final = Wrapper(
    decoder=NEMOTRON_H["NemotronHForCausalLM"],
    towers=(nemotron.radio, nemotron.vision_projector, nemotron.parakeet),
)

RARER_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "Alpamayo2Super": _QWEN3_VL,
    "BagelForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(projected.bagel,)),
    "BailingMoeV3VLForConditionalGeneration": Wrapper(
        decoder=SEEING_BAILING_3, towers=(qwen.bailing,)
    ),
    "BeeForConditionalGeneration": Wrapper(
        towers=(projected.headless_siglip,), kept=(projected.bee, clip_like.newline)
    ),
    "CohereCompassForConditionalGeneration": Wrapper(decoder=_COMPASS, towers=(qwen.qwen3_vl,)),
    "ColModernVBertForRetrieval": Wrapper(
        decoder=MODERNBERT, towers=(dual.modern_vbert,), always_loaded=True
    ),
    "ColPaliForRetrieval": Wrapper(
        decoder=GEMMA, towers=(dual.colpali,), kept=(dual.late_projection,)
    ),
    "ColQwen3": _COL_QWEN3,
    "ColQwen3_5": replace(_QWEN3_5, kept=(dual.biased_late_projection,), keeps_head=True),
    "ColUltraVBertForRetrieval": Wrapper(decoder=_ULTRABERT, towers=(dual.ultra_vbert,)),
    "Cosmos3ForConditionalGeneration": _QWEN3_VL,
    "D3ForSequenceClassification": replace(_QWEN3_5, kept=(label_scores,)),
    "DeepseekOCRForCausalLM": _DEEPSEEK_OCR,
    "DeepseekOCR2ForCausalLM": Wrapper(
        decoder=OCR, towers=(deepseek.ocr2,), kept=(deepseek.ocr2_mark,)
    ),
    "DeepseekV4ForConditionalGeneration": Wrapper(
        decoder=SEEING_V4, towers=(deepseek.v4,), marks=(deepseek.image_marks,)
    ),
    "DeepseekV41ForCausalLM": Wrapper(
        decoder=DEEPSEEK_V41, towers=(deepseek.v41,), kept=(deepseek.v41_marks,)
    ),
    "DotsOCRForCausalLM": Wrapper(decoder=QWEN2, towers=(siglip_like.dots,)),
    "Eagle2_5_VLForConditionalGeneration": Wrapper(towers=(siglip_like.eagle,)),
    "IsaacForConditionalGeneration": Wrapper(decoder=ISAAC, towers=(siglip_like.isaac,)),
    "KeyeForConditionalGeneration": Wrapper(decoder=QWEN3, towers=(siglip_like.keye,)),
    "KeyeVL1_5ForConditionalGeneration": Wrapper(decoder=QWEN3, towers=(siglip_like.keye_1_5,)),
    "LlavaOnevision2ForConditionalGeneration": Wrapper(
        decoder=QWEN3, towers=(siglip_like.llava_onevision2,)
    ),
    "MiniCPMO": Wrapper(towers=(minicpm.resampled, minicpm.ears)),
    "MiniCPMV": Wrapper(towers=(minicpm.resampled,)),
    "Gemma4UnifiedForConditionalGeneration": Wrapper(
        decoder=GEMMA4, kept=(rarer.gemma4_unified,), inputs=(per_layer_inputs,)
    ),
    "Ernie4_5_VLMoeForConditionalGeneration": Wrapper(
        decoder=ERNIE_VL, towers=(rarer.ernie4_5_vl,), kept=(rarer.ernie_image_words,)
    ),
    "GLM4VForCausalLM": Wrapper(decoder=CHATGLM, towers=(glm.eva,)),
    "Glm4vMoeForConditionalGeneration": Wrapper(
        decoder=MIXTURES["Glm4MoeForCausalLM"], towers=(glm.glm4v,)
    ),
    "LightOnOCRForConditionalGeneration": Wrapper(decoder=QWEN3, towers=(clip_like.mistral3,)),
    "MiMoV2OmniForCausalLM": Wrapper(
        decoder=WINDOWED_MIXTURES["MiMoV2FlashForCausalLM"],
        towers=(rarer.mimo_v2_omni, mimo.ears),
        beside=("audio_tokenizer/config.json", mimo.TOKENIZER),
    ),
    "Molmo2ForConditionalGeneration": Wrapper(decoder=MOLMO2, towers=(rarer.molmo2,)),
    "MolmoForCausalLM": Wrapper(decoder=MOLMO, towers=(siglip_like.molmo,)),
    "MuseSparkForConditionalGeneration": MUSE_SPARK,
    "Granite4VisionForConditionalGeneration": Wrapper(
        decoder=LLAMA, towers=(projected.granite4,), kept=(clip_like.newline,)
    ),
    "HCXVisionV2ForCausalLM": Wrapper(
        towers=(qwen.hyperclova,), tied=given("tie_word_embeddings", absent=True)
    ),
    "H2OVLChatModel": _INTERN_CHAT,
    "HunYuanVLForConditionalGeneration": Wrapper(
        decoder=_HUNYUAN, towers=(library.hunyuan_vl,), on_every_stage=True
    ),
    "InternS1ForConditionalGeneration": Wrapper(towers=(others.internvl,)),
    "InternS1ProForConditionalGeneration": Wrapper(decoder=INTERNS1_PRO, towers=(qwen.qwen3_vl,)),
    "InternS2MobiusForConditionalGeneration": Wrapper(decoder=MOBIUS, towers=(qwen.qwen3_vl,)),
    "InternS2PreviewForConditionalGeneration": _QWEN3_5,
    "InternVLChatModel": _INTERN_CHAT,
    "JambaForSequenceClassification": Wrapper(decoder=JAMBA, kept=(label_scores,), keeps_head=True),
    "JinaVLForRanking": Wrapper(
        decoder=QWEN2, towers=(qwen.qwen2_vl,), kept=(jina_scorer,), keeps_head=True
    ),
    "KimiVLForConditionalGeneration": Wrapper(decoder=DEEPSEEK, towers=(moonvit.kimi_vl,)),
    "Lfm2VlForConditionalGeneration": Wrapper(towers=(projected.lfm2,)),
    "NVLM_D": Wrapper(towers=(intern_vit.nvlm,)),
    "NemotronH_Nano_Omni_Reasoning_V3": _NEMOTRON_NANO,
    "NemotronH_Nano_VL_V2": _NEMOTRON_NANO,
    "NemotronH_Omni_Reasoning_V3": _NEMOTRON_NANO,
    "NemotronH_Super_Omni_Reasoning_V3": _NEMOTRON_NANO,
    "OpsColQwen3Model": _COL_QWEN3,
    "OpenCUAForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(qwen.qwen2_5_vl,)),
    "Ovis": Wrapper(towers=(rarer.ovis2,)),
    "Ovis2_5": _OVIS,
    "Ovis2_6ForCausalLM": _OVIS,
    "Ovis2_6_MoeForCausalLM": _OVIS,
    "Phi3VForCausalLM": Wrapper(decoder=LLAMA, towers=(projected.phi3, projected.phi3_words)),
    "Phi4ForCausalLMV": Wrapper(decoder=LLAMA, towers=(projected.phi4_siglip,)),
    "Qwen3OmniMoeForConditionalGeneration": Wrapper(
        decoder=QWEN3_MOE, towers=(audio.qwen3_asr, audio.qwen3_omni_eyes)
    ),
    "UnlimitedOCRForCausalLM": _DEEPSEEK_OCR,
    "UltravoxModel": Wrapper(towers=(audio.ultravox,)),
    "QianfanOCRForConditionalGeneration": Wrapper(towers=(intern_vit.qianfan,)),
    "Qwen3ASRForcedAlignerForTokenClassification": Wrapper(
        decoder=QWEN3, towers=(audio.qwen3_asr,), kept=(audio.aligner_head,)
    ),
    "Qwen3ASRRealtimeGeneration": Wrapper(decoder=QWEN3, towers=(audio.qwen3_asr,)),
    "Qwen4ExpForConditionalGeneration": Wrapper(decoder=QWEN4_EXP, towers=(qwen.qwen3_vl,)),
    "Qwen3VLNemotronEmbedModel": _COL_QWEN3,
    "RForConditionalGeneration": Wrapper(
        towers=(projected.headless_siglip,), kept=(projected.rvl, clip_like.newline)
    ),
    "RadioMBartPrefixForCausalLM": Wrapper(decoder=MBART, towers=(nemotron.radio_with_neck,)),
    "SkyworkR1VChatModel": _INTERN_CHAT,
    "Step3VLForConditionalGeneration": Wrapper(towers=(step.step3,)),
    "Step3p7ForConditionalGeneration": _STEP_VL,
    "Step5ForConditionalGeneration": _STEP_VL,
    "StepVLForConditionalGeneration": _STEP_VL,
    "VoxtralRealtimeGeneration": Wrapper(
        decoder=TIMED,
        towers=(audio.voxtral_realtime,),
        kept=(audio.time_embedding,),
        spread=("audio_config", "encoder_layers"),
    ),
}
