"""Multimodal models of images that few people serve: their language model, and their towers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.memory.weights.families.bailing import BAILINGS
from kvplan_cli.memory.weights.families.moondream import MOONDREAM
from kvplan_cli.memory.weights.families.nemotron_parse import NEMOTRON_PARSE
from kvplan_cli.memory.weights.families.states import QWEN3_5
from kvplan_cli.memory.weights.heads import text_label_scores
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.towers import minicpm, nemotron_vl, openpangu

_LLAMA_NEMOTRON: Final = Wrapper(
    towers=(nemotron_vl.embedding,), kept=(nemotron_vl.input_norm,), keeps_head=True
)

IMAGE_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "HfMoondream": MOONDREAM,
    "LlamaNemotronVLForSequenceClassification": replace(
        _LLAMA_NEMOTRON, kept=(nemotron_vl.input_norm, text_label_scores)
    ),
    "LlamaNemotronVLModel": _LLAMA_NEMOTRON,
    "Llama_Nemotron_Nano_VL": Wrapper(towers=(nemotron_vl.nano,)),
    "MiniCPMOcrForConditionalGeneration": Wrapper(decoder=QWEN3_5, towers=(minicpm.window,)),
    "Moondream3ForCausalLM": MOONDREAM,
    "NemotronParseForConditionalGeneration": NEMOTRON_PARSE,
    "OpenPanguVLForConditionalGeneration": Wrapper(
        decoder=BAILINGS["PanguEmbeddedForCausalLM"], towers=(openpangu.pangu,)
    ),
}
