"""The older line: GPT-2, GPT-J, BLOOM, OPT, Falcon, ChatGLM, DBRX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, multimodal, pooling, rows
from kvplan_cli.models.flags import always, has_alibi
from kvplan_cli.models.heads import chatglm_heads, dbrx_heads, equal_heads, falcon_heads
from kvplan_cli.models.reach import unwindowed

CHATGLM: Final = Decoder(
    layer_name="transformer.encoder.layers.{}.self_attention.attn",
    heads=chatglm_heads,
)
GPT: Final = Decoder(layer_name="transformer.h.{}.attn.attn", heads=equal_heads)

ROWS: Final[Sequence[Architecture]] = (
    *rows(
        Decoder(
            layer_name="transformer.h.{}.self_attention.attn",
            heads=equal_heads,
            alibi=always,
        ),
        "BloomForCausalLM",
    ),
    *rows(CHATGLM, "ChatGLMForConditionalGeneration", "ChatGLMModel"),
    *multimodal(CHATGLM, "GLM4VForCausalLM"),
    *rows(
        Decoder(
            layer_name="transformer.blocks.{}.norm_attn_norm.attn.attn",
            heads=dbrx_heads,
        ),
        "DbrxForCausalLM",
    ),
    *rows(
        Decoder(
            layer_name="transformer.h.{}.self_attention.attn",
            heads=falcon_heads,
            reach=unwindowed,
            alibi=has_alibi,
            ignores_cache_config=True,
        ),
        "FalconForCausalLM",
    ),
    *rows(GPT, "GPT2LMHeadModel", "GPTJForCausalLM"),
    *pooling(GPT, "GPT2ForSequenceClassification", supports_pp=False),
    *rows(
        Decoder(
            layer_name="model.decoder.layers.{}.self_attn.attn",
            heads=equal_heads,
        ),
        "OPTForCausalLM",
    ),
)
