"""Decoders built like Llama: one attention layer a decoder layer, grouped queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, pooling, rows
from kvplan_cli.models.flags import always, causal_unless_switched_off, never
from kvplan_cli.models.heads import minicpm3_heads, single_kv_head, split_heads, step1_heads
from kvplan_cli.models.reach import by_layer_types, qwen_wide
from kvplan_cli.models.shape import RunnerType

GROUPED: Final = Decoder()
SPLIT: Final = Decoder(heads=split_heads)
LLAMA: Final = Decoder(reach=by_layer_types, causal=causal_unless_switched_off)
QWEN2: Final = Decoder(heads=split_heads, reach=qwen_wide, causal=causal_unless_switched_off)
QWEN3: Final = Decoder(reach=qwen_wide, causal=causal_unless_switched_off)
INTERNLM2: Final = Decoder(heads=split_heads, layer_name="model.layers.{}.attention.attn")
ENCODER: Final = replace(LLAMA, causal=never)

ROWS: Final[Sequence[Architecture]] = (
    *rows(
        LLAMA,
        "ApertusForCausalLM",
        "Ernie4_5ForCausalLM",
        "InternLM3ForCausalLM",
        "IQuestCoderForCausalLM",
        "LLaMAForCausalLM",
        "LlamaForCausalLM",
        "LlamaModel",
        "Ministral3ForCausalLM",
        "MistralForCausalLM",
        "MistralModel",
        "Phi3ForCausalLM",
        "SolarForCausalLM",
        "TeleChat2ForCausalLM",
        "TeleChat3ForCausalLM",
        "TeleFLMForCausalLM",
    ),
    *pooling(ENCODER, "LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification"),
    *rows(
        GROUPED,
        "Ernie4_5_MoeForCausalLM",
        "Glm4ForCausalLM",
        "Glm4MoeForCausalLM",
        "HyperCLOVAXForCausalLM",
        "HYV3ForCausalLM",
        "K2HorizonForCausalLM",
        "MiniMaxM2ForCausalLM",
        "MixtralForCausalLM",
        "NemotronForCausalLM",
        "Param2MoEForCausalLM",
        "PhiMoEForCausalLM",
        "Qwen3MoeForCausalLM",
    ),
    *rows(
        Decoder(layer_name="model.layers.{}.attention.attn"),
        "BailingMoeForCausalLM",
        "BailingMoeV2ForCausalLM",
        "SarvamMoEForCausalLM",
    ),
    *rows(INTERNLM2, "InternLM2ForCausalLM"),
    *pooling(INTERNLM2, "InternLM2ForRewardModel"),
    *rows(Decoder(layer_name="model.h.{}.attn.attention.attn"), "ExaoneForCausalLM"),
    *rows(QWEN2, "MiMoForCausalLM", "Qwen2ForCausalLM", "Qwen2Model"),
    *pooling(QWEN2, "Qwen2ForRewardModel"),
    Architecture(
        name="Qwen2ForProcessRewardModel",
        model=QWEN2,
        runner_type=RunnerType.POOLING,
        default_tok_pooling_type="STEP",
    ),
    *rows(QWEN3, "Qwen3ForCausalLM"),
    *rows(
        SPLIT,
        "MiniCPMForCausalLM",
        "OlmoeForCausalLM",
        "OrionForCausalLM",
        "Qwen2MoeForCausalLM",
        "StableLmForCausalLM",
    ),
    *rows(Decoder(heads=minicpm3_heads), "MiniCPM3ForCausalLM"),
    *rows(
        Decoder(heads=single_kv_head, layer_name=".layers.{}.self_attn.attn"),
        "Step3TextForCausalLM",
    ),
    *rows(Decoder(heads=step1_heads, alibi=always, alibi_sqrt=always), "Step1ForCausalLM"),
)
