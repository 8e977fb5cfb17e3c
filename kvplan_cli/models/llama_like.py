"""Decoders built like Llama: one attention layer a decoder layer, grouped queries."""

from __future__ import annotations

from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, always
from kvplan_cli.models.heads import split_heads
from kvplan_cli.models.reach import alternating, by_layer_types

LLAMA: Final = Decoder(reach=by_layer_types)
QWEN2: Final = Decoder(heads=split_heads)

ROWS: Final = (
    Architecture(name="LlamaForCausalLM", model=LLAMA),
    Architecture(name="MistralForCausalLM", model=LLAMA),
    Architecture(name="MixtralForCausalLM"),
    Architecture(name="Qwen2ForCausalLM", model=QWEN2),
    Architecture(name="Qwen3ForCausalLM"),
    Architecture(name="Qwen3MoeForCausalLM"),
    Architecture(name="Gemma2ForCausalLM", model=Decoder(reach=by_layer_types)),
    Architecture(name="Gemma3ForCausalLM", model=Decoder(reach=by_layer_types)),
    Architecture(
        name="GptOssForCausalLM",
        model=Decoder(layer_name="model.layers.{}.attn.attn", reach=alternating, sink=always),
    ),
)
