"""Multimodal models of images that few people serve: their language model, and their towers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.memory.weights.families.bailing import BAILINGS
from kvplan_cli.memory.weights.families.deepseek import VL2
from kvplan_cli.memory.weights.families.llama_like import LLAMA
from kvplan_cli.memory.weights.families.moondream import MOONDREAM
from kvplan_cli.memory.weights.families.nemotron_parse import NEMOTRON_PARSE
from kvplan_cli.memory.weights.families.states import QWEN3_5
from kvplan_cli.memory.weights.heads import text_label_scores
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.rope import InverseFrequencies
from kvplan_cli.memory.weights.towers import emu3, minicpm, nemotron_vl, openpangu, timm

_LLAMA_NEMOTRON: Final = Wrapper(
    towers=(nemotron_vl.embedding,), kept=(nemotron_vl.input_norm,), keeps_head=True
)
_EMU3: Final = replace(LLAMA, rope=InverseFrequencies())

IMAGE_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "DeepseekVLV2ForCausalLM": Wrapper(
        decoder=VL2, towers=(timm.deepseek_vl2,), kept=(timm.deepseek_vl2_marks,)
    ),
    "Emu3ForConditionalGeneration": Wrapper(
        decoder=_EMU3, towers=(emu3.emu3,), on_every_stage=True, always_loaded=True
    ),
    "HfMoondream": MOONDREAM,
    "KananaVForConditionalGeneration": Wrapper(decoder=LLAMA, towers=(timm.kanana,)),
    "LlamaNemotronVLForSequenceClassification": replace(
        _LLAMA_NEMOTRON, kept=(nemotron_vl.input_norm, text_label_scores)
    ),
    "LlamaNemotronVLModel": _LLAMA_NEMOTRON,
    "Llama_Nemotron_Nano_VL": Wrapper(towers=(nemotron_vl.nano,)),
    "MiniCPMOcrForConditionalGeneration": Wrapper(decoder=QWEN3_5, towers=(minicpm.window,)),
    "Moondream3ForCausalLM": MOONDREAM,
    "NemotronParseForConditionalGeneration": NEMOTRON_PARSE,
    "OpenVLAForActionPrediction": Wrapper(towers=(timm.openvla,)),
    "OpenPanguVLForConditionalGeneration": Wrapper(
        decoder=BAILINGS["PanguEmbeddedForCausalLM"], towers=(openpangu.pangu,)
    ),
}
