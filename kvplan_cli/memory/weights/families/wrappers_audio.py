"""Models that hear: which language model, and which towers before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.families.cohere_asr import COHERE_ASR
from kvplan_cli.memory.weights.families.gemma_per_layer import PER_LAYER_GEMMAS, per_layer_inputs
from kvplan_cli.memory.weights.families.library import LIBRARY
from kvplan_cli.memory.weights.families.llama_like import LLAMA, QWEN2, QWEN3
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.towers import conformer, gemma3n, phi4, talking, vibevoice
from kvplan_cli.models.shape import AttentionLayer


def _plain(parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig) -> dict[str, Any]:
    """The config class of MiDashengLM drops whatever its language part says of rotation."""
    return {"rope_type": "default"}


_MIDASHENG: Final = replace(QWEN2, rope=RopeTables(adjust=_plain))

AUDIO_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "CohereAsrForConditionalGeneration": Wrapper(
        decoder=COHERE_ASR, towers=(conformer.cohere_asr,)
    ),
    "FireRedASR2ForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(conformer.fire_red,)),
    "FunASRForConditionalGeneration": Wrapper(
        decoder=QWEN3, towers=(conformer.fun_asr,), always_loaded=True
    ),
    "FunAudioChatForConditionalGeneration": Wrapper(
        decoder=QWEN3, towers=(talking.fun_audio_chat,)
    ),
    "Gemma3nForConditionalGeneration": Wrapper(
        decoder=PER_LAYER_GEMMAS["Gemma3nForCausalLM"],
        towers=(gemma3n.images, gemma3n.sound),
        inputs=(per_layer_inputs,),
    ),
    "MiDashengLMModel": Wrapper(decoder=_MIDASHENG, towers=(talking.midasheng,)),
    "MoonshotKimiaForCausalLM": Wrapper(
        decoder=QWEN2,
        towers=(talking.kimi_audio,),
        spread=(talking.WHISPER, "encoder_layers"),
        beside=("whisper-large-v3/config.json", talking.WHISPER),
    ),
    "MossAudioModel": Wrapper(decoder=QWEN3, towers=(talking.moss_audio,)),
    "Phi4MMForCausalLM": Wrapper(decoder=LLAMA, towers=(phi4.images, phi4.sound)),
    "VibeVoiceAsrForConditionalGeneration": Wrapper(
        decoder=LIBRARY["qwen2"],
        towers=(vibevoice.vibevoice,),
        on_every_stage=True,
        always_loaded=True,
    ),
}
