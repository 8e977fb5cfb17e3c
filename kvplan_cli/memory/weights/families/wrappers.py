"""Multimodal models: which language model, and which towers before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK
from kvplan_cli.memory.weights.families.dots3 import DOTS3_NOTE
from kvplan_cli.memory.weights.families.encoders import CLIP_TEXT, MODERNBERT, SIGLIP_TEXT
from kvplan_cli.memory.weights.families.gemma import GEMMA3
from kvplan_cli.memory.weights.families.gemma_per_layer import (
    DIFFUSION_GEMMA,
    GEMMA4,
    per_layer_inputs,
)
from kvplan_cli.memory.weights.families.glm5_next import GLM5_NEXT
from kvplan_cli.memory.weights.families.kimi import KIMI_LINEAR
from kvplan_cli.memory.weights.families.llama_like import (
    COSMOS,
    ERNIE,
    EXAONE4,
    GLM4_TEXT,
    LLAMA,
    MUSE,
    QWEN2,
    QWEN3,
    QWEN3_VL,
)
from kvplan_cli.memory.weights.families.minimax_m3 import MINIMAX_M3
from kvplan_cli.memory.weights.families.mixtures import ARIA, LLAMA4, QWEN3_VL_MOE
from kvplan_cli.memory.weights.families.states import QWEN3_5
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.towers import (
    audio,
    clip_like,
    dual,
    gemma4,
    glm,
    minicpm,
    minimax,
    moonvit,
    others,
    qformer,
    qwen,
)

WRAPPER_ROWS: Final[Mapping[str, Wrapper]] = {
    "AriaForConditionalGeneration": Wrapper(decoder=ARIA, towers=(others.aria,)),
    "AudioFlamingo3ForConditionalGeneration": Wrapper(
        decoder=QWEN2, towers=(audio.audio_flamingo3,)
    ),
    "Blip2ForConditionalGeneration": Wrapper(towers=(qformer.blip2,), kept=(qformer.query_tokens,)),
    "CLIPModel": Wrapper(
        decoder=CLIP_TEXT, towers=(dual.clip_model,), kept=(dual.clip_text_projection,)
    ),
    "Cohere2VisionForConditionalGeneration": Wrapper(towers=(clip_like.cohere2,)),
    "Cosmos3EdgeForConditionalGeneration": Wrapper(decoder=COSMOS, towers=(others.cosmos3,)),
    "DiffusionGemmaForBlockDiffusion": Wrapper(decoder=DIFFUSION_GEMMA, towers=(gemma4.eyes,)),
    "Dots3NoteForCausalLM": DOTS3_NOTE,
    "Exaone4_5_ForConditionalGeneration": Wrapper(decoder=EXAONE4, towers=(qwen.qwen2_5_vl,)),
    "Gemma3ForConditionalGeneration": Wrapper(decoder=GEMMA3, towers=(clip_like.gemma3,)),
    "Gemma4ForConditionalGeneration": Wrapper(
        decoder=GEMMA4, towers=(gemma4.eyes, gemma4.ears), inputs=(per_layer_inputs,)
    ),
    "Glm4vForConditionalGeneration": Wrapper(decoder=GLM4_TEXT, towers=(glm.glm4v,)),
    "Glm5NextForConditionalGeneration": Wrapper(decoder=GLM5_NEXT, towers=(glm.glm5_next,)),
    "GlmAsrForConditionalGeneration": Wrapper(decoder=LLAMA, towers=(audio.glm_asr,)),
    "GlmOcrForConditionalGeneration": Wrapper(decoder=GLM4_TEXT, towers=(glm.glm_ocr,)),
    "GraniteSpeechForConditionalGeneration": Wrapper(towers=(qformer.granite_speech,)),
    "GraniteSpeechPlusForConditionalGeneration": Wrapper(towers=(qformer.granite_speech,)),
    "Idefics3ForConditionalGeneration": Wrapper(decoder=LLAMA, towers=(clip_like.idefics3,)),
    "InternVLForConditionalGeneration": Wrapper(towers=(others.internvl,)),
    "KimiK25ForConditionalGeneration": Wrapper(decoder=DEEPSEEK, towers=(moonvit.kimi,)),
    "KimiK3ForConditionalGeneration": Wrapper(decoder=KIMI_LINEAR, towers=(moonvit.kimi,)),
    "Llama4ForConditionalGeneration": Wrapper(decoder=LLAMA4, towers=(others.llama4,)),
    "LlavaForConditionalGeneration": Wrapper(towers=(clip_like.llava,)),
    "LlavaNextForConditionalGeneration": Wrapper(
        towers=(clip_like.llava,), kept=(clip_like.newline,)
    ),
    "LlavaNextVideoForConditionalGeneration": Wrapper(towers=(clip_like.llava_next_video,)),
    "LlavaOnevisionForConditionalGeneration": Wrapper(
        towers=(clip_like.llava_onevision,), kept=(clip_like.newline,)
    ),
    "MiniMaxM3SparseForConditionalGeneration": Wrapper(
        decoder=MINIMAX_M3, towers=(minimax.minimax,)
    ),
    "MiniCPMV4_6ForConditionalGeneration": Wrapper(decoder=QWEN3_5, towers=(minicpm.window,)),
    "MiniCPMV4_7ForConditionalGeneration": Wrapper(decoder=QWEN3_5, towers=(minicpm.window,)),
    "Mistral3ForConditionalGeneration": Wrapper(towers=(clip_like.mistral3,)),
    "ModernVBertModel": Wrapper(
        decoder=MODERNBERT, towers=(dual.modern_vbert,), always_loaded=True
    ),
    "MossTranscribeDiarizeForConditionalGeneration": Wrapper(
        decoder=QWEN3, towers=(audio.moss_transcribe,)
    ),
    "MuseGlimmerForConditionalGeneration": Wrapper(decoder=MUSE, towers=(others.muse,)),
    "PaddleOCRVLForConditionalGeneration": Wrapper(decoder=ERNIE, towers=(others.paddle_ocr,)),
    "PaliGemmaForConditionalGeneration": Wrapper(towers=(clip_like.paligemma,)),
    "PixtralForConditionalGeneration": Wrapper(towers=(clip_like.mistral,)),
    "Qwen2AudioForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(audio.qwen2_audio,)),
    "Qwen2VLForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(qwen.qwen2_vl,)),
    "Qwen2_5OmniForConditionalGeneration": Wrapper(
        decoder=QWEN2, towers=(audio.qwen2_5_omni, audio.qwen2_5_omni_eyes)
    ),
    "Qwen2_5_VLForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(qwen.qwen2_5_vl,)),
    "Qwen3ASRForConditionalGeneration": Wrapper(decoder=QWEN3, towers=(audio.qwen3_asr,)),
    "Qwen3VLForConditionalGeneration": Wrapper(decoder=QWEN3_VL, towers=(qwen.qwen3_vl,)),
    "Qwen3VLMoeForConditionalGeneration": Wrapper(decoder=QWEN3_VL_MOE, towers=(qwen.qwen3_vl,)),
    "Qwen3_5ForConditionalGeneration": Wrapper(decoder=QWEN3_5, towers=(qwen.qwen3_vl,)),
    "Qwen3_5MoeForConditionalGeneration": Wrapper(decoder=QWEN3_5, towers=(qwen.qwen3_vl,)),
    "SiglipModel": Wrapper(
        decoder=SIGLIP_TEXT, towers=(dual.siglip_model,), kept=(dual.siglip_text_head,)
    ),
    "SmolVLMForConditionalGeneration": Wrapper(decoder=LLAMA, towers=(clip_like.idefics3,)),
    "VoxtralForConditionalGeneration": Wrapper(
        towers=(audio.voxtral,), spread=("audio_config", "encoder_layers")
    ),
}
