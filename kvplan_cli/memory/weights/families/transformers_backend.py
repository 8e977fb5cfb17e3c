"""Architectures that the engine runs on the modules of ``transformers``.

Linear layers are the engine's own, norms stay whole, and rotary positions need no table.
Source: vLLM 0.33.0 ``models/transformers/base.py`` and transformers 5.20.2 ``models``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM
from kvplan_cli.memory.weights.families.mixtures import optional_size
from kvplan_cli.memory.weights.feed_forward import Gated, Plain
from kvplan_cli.memory.weights.layers import Flag, Size, always, given, product, sized
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm, QkNorm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import InverseFrequencies
from kvplan_cli.memory.weights.tensors import Tensors

_FREQUENCIES: Final = InverseFrequencies()
_WHOLE: Final = qk_norm(QkNorm.WHOLE, always)
_ON: Final[Flag] = given("attention_bias", absent=True)
_LAYER_NORMS: Final = layer_norms(2, Norm.WITH_BIAS)
_BY_TYPE: Final = InverseFrequencies(by_type=True)


def _embed_scale(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return site.vector("embed_scale", 1) if stage.is_first or stage.is_last else ()


def _uniform(key: str) -> Size:
    """A size that Hunyuan lists layer by layer, though it is the same in all of them."""

    def read(config: HfConfig) -> int:
        value = config.raw(key)
        if not isinstance(value, list | tuple):
            return config.positive(key)
        if len(set(value)) != 1 or not isinstance(value[0], int):
            raise config.wrong(key, "one size for all layers")
        return value[0]

    return read


OLMO2: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=_WHOLE),
    rope=_FREQUENCIES,
)
_BIASED: Final = Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS)

TRANSFORMERS_BACKEND: Final[Mapping[str, Decoder]] = {
    "ArceeForCausalLM": Decoder(
        attention=_BIASED, feed_forward=Plain(bias=given("mlp_bias")), rope=_FREQUENCIES
    ),
    "CwmForCausalLM": Decoder(feed_forward=Gated(bias=given("mlp_bias")), rope=_FREQUENCIES),
    "FlexOlmoForCausalLM": Decoder(
        attention=OLMO2.attention,
        feed_forward=Experts(intermediate=sized("intermediate_size")),
        rope=_FREQUENCIES,
    ),
    "GPTNeoXForCausalLM": Decoder(
        attention=Attention(path="attention", qkv_bias=_ON, output_bias=_ON, single=True),
        feed_forward=Plain(bias=always),
        norms=_LAYER_NORMS,
        rope=_FREQUENCIES,
        final_norm=Norm.WITH_BIAS,
    ),
    "GlmForCausalLM": Decoder(
        attention=Attention(qkv_bias=_ON), feed_forward=Gated(single=True), rope=_FREQUENCIES
    ),
    "HunYuanDenseV1ForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
        rope=_FREQUENCIES,
    ),
    "HunYuanMoEV1ForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
        feed_forward=Experts(
            intermediate=_uniform("moe_intermediate_size"),
            shared=product(_uniform("num_shared_expert"), _uniform("moe_intermediate_size")),
        ),
        rope=_FREQUENCIES,
    ),
    "Jais2ForCausalLM": Decoder(
        attention=Attention(qkv_bias=_ON, output_bias=_ON),
        feed_forward=Plain(bias=given("mlp_bias", absent=True)),
        norms=_LAYER_NORMS,
        rope=_FREQUENCIES,
        final_norm=Norm.WITH_BIAS,
    ),
    "Kolibri1ForCausalLM": Decoder(
        attention=Attention(qk_norm=HEAD_NORM),
        feed_forward=Experts(
            count=sized("num_local_experts"),
            shared=optional_size("shared_expert_intermediate_size"),
            correction=always,
        ),
        norms=layer_norms(4),
        rope=_FREQUENCIES,
    ),
    "MellumForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
        feed_forward=Experts(count=sized("num_local_experts", "num_experts")),
        rope=_BY_TYPE,
    ),
    "NanbeigeForCausalLM": Decoder(
        attention=_BIASED, feed_forward=Gated(bias=given("mlp_bias")), rope=_FREQUENCIES
    ),
    "OlmoForCausalLM": Decoder(
        attention=_BIASED,
        norms=layer_norms(0),
        rope=_FREQUENCIES,
        final_norm=Norm.NONE,
    ),
    "Olmo2ForCausalLM": OLMO2,
    "Olmo3ForCausalLM": Decoder(attention=OLMO2.attention, rope=_BY_TYPE),
    "PhiForCausalLM": Decoder(
        attention=Attention(qkv_bias=always, output_bias=always),
        feed_forward=Plain(bias=always),
        norms=layer_norms(1, Norm.WITH_BIAS),
        rope=_FREQUENCIES,
        final_norm=Norm.WITH_BIAS,
    ),
    "SeedOssForCausalLM": Decoder(
        attention=Attention(qkv_bias=_ON, output_bias=given("attention_out_bias")),
        feed_forward=Gated(bias=given("mlp_bias")),
        rope=_FREQUENCIES,
    ),
    "SmolLM3ForCausalLM": Decoder(
        attention=_BIASED,
        feed_forward=Gated(bias=given("mlp_bias")),
        rope=_FREQUENCIES,
        tied=given("tie_word_embeddings", absent=True),
    ),
    "Starcoder2ForCausalLM": Decoder(
        attention=Attention(
            qkv_bias=given("use_bias", absent=True), output_bias=given("use_bias", absent=True)
        ),
        feed_forward=Plain(bias=given("use_bias", absent=True)),
        norms=_LAYER_NORMS,
        rope=_FREQUENCIES,
        final_norm=Norm.WITH_BIAS,
        tied=given("tie_word_embeddings", absent=True),
    ),
    "VaultGemmaForCausalLM": Decoder(
        attention=_BIASED,
        rope=_FREQUENCIES,
        tied=given("tie_word_embeddings", absent=True),
        extras=_embed_scale,
    ),
}
