"""Models that hear: which language model, and which towers before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.families.library import LIBRARY
from kvplan_cli.memory.weights.families.llama_like import LLAMA, QWEN2, QWEN3
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.towers import conformer, phi4, vibevoice

AUDIO_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "FireRedASR2ForConditionalGeneration": Wrapper(decoder=QWEN2, towers=(conformer.fire_red,)),
    "FunASRForConditionalGeneration": Wrapper(
        decoder=QWEN3, towers=(conformer.fun_asr,), always_loaded=True
    ),
    "Phi4MMForCausalLM": Wrapper(decoder=LLAMA, towers=(phi4.images, phi4.sound)),
    "VibeVoiceAsrForConditionalGeneration": Wrapper(
        decoder=LIBRARY["qwen2"],
        towers=(vibevoice.vibevoice,),
        on_every_stage=True,
        always_loaded=True,
    ),
}
