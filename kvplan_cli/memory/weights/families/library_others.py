"""Types whose modules in the Transformers library differ from the engine's own class, and types
that the engine has no class for.

Source: vLLM 0.33.0 ``models/transformers/{base,causal,moe}.py`` and its ``fusers``; transformers
5.20.2 ``models/<type>/modeling_<type>.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, cache_scales
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK, EXPERTS, sparse_layer
from kvplan_cli.memory.weights.families.elder import OPT, TIED, opt_ends
from kvplan_cli.memory.weights.families.library_bert import LIBRARY_BERTS
from kvplan_cli.memory.weights.families.library_gemma4 import GEMMA4_TEXT
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS
from kvplan_cli.memory.weights.families.mixtures import ARIA, MIXTURES
from kvplan_cli.memory.weights.feed_forward import GATED, Gated, Plain
from kvplan_cli.memory.weights.latent import latent_frequencies
from kvplan_cli.memory.weights.layers import (
    HIDDEN,
    ByLayer,
    LayerFacts,
    always,
    given,
    never,
    sized,
    together,
    where,
    whole,
)
from kvplan_cli.memory.weights.library_tables import library_table
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import InverseFrequencies, no_rope
from kvplan_cli.memory.weights.tensors import Tensors

_FREQUENCIES: Final = InverseFrequencies()
_ON: Final = given("attention_bias", absent=True)
_BIASED: Final = Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS)


def _embeds(config: HfConfig, stage: Stage) -> bool:
    """Whether what stands before the layers is on the stage."""
    return stage.is_first or (stage.is_last and TIED(config))


def _gpt_oss_experts(facts: LayerFacts) -> Tensors:
    """Experts with biases stay the library's own: every rank holds them whole, unquantized."""
    site, config, hidden = facts.site.at("mlp"), facts.config, facts.hidden_size
    count, inner = config.positive("num_local_experts"), config.positive("intermediate_size")
    return (
        *site.plain("router", hidden, count, bias=True),
        *site.vector("experts.gate_up_proj", count * hidden * 2 * inner),
        *site.vector("experts.gate_up_proj_bias", count * 2 * inner),
        *site.vector("experts.down_proj", count * inner * hidden),
        *site.vector("experts.down_proj_bias", count * hidden),
    )


def _biogpt_attention(facts: LayerFacts) -> Tensors:
    """Keys and values are one matrix that is shared out; queries are whole."""
    hidden, site = facts.hidden_size, facts.site.at("self_attn")
    return (
        *site.replicated("q_proj", hidden, hidden, bias=True),
        *site.column("kv_proj", hidden, (hidden, hidden), bias=True),
        *site.replicated("out_proj", hidden, hidden, bias=True),
        *cache_scales(site),
    )


_BIOGPT_OFFSET: Final = 2


def _biogpt_positions(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    if not _embeds(config, stage):
        return ()
    rows = config.positive("max_position_embeddings") + _BIOGPT_OFFSET
    return library_table(site, config, "embed_positions", rows, HIDDEN(config))


def _bitnet_attention_norm(facts: LayerFacts) -> Tensors:
    return facts.site.vector("self_attn.attn_sub_norm", facts.hidden_size)


def _bitnet_feed_forward(facts: LayerFacts) -> Tensors:
    """A norm before the down projection; only what leads up is shared out, if at all."""
    inner = facts.config.positive("intermediate_size")
    site = facts.site.at("mlp")
    return (
        *site.column("gate_up_proj", facts.hidden_size, (inner, inner)),
        *site.replicated("down_proj", inner, facts.hidden_size),
        *site.vector("ffn_sub_norm", inner),
    )


def _doge_mask(facts: LayerFacts) -> Tensors:
    """What weighs each key by its values, and two residuals."""
    layer, site, hidden = facts.attention, facts.site, facts.hidden_size
    heads = layer.num_kv_heads
    bias = ATTENTION_BIAS(facts.config)
    return (
        *site.vector("self_attn.A", heads),
        *site.row("self_attn.dt_proj", heads * layer.head_size, heads, bias=bias),
        *site.vector("self_attn.q_norm", layer.head_size) * 2,
        *site.vector("residual", hidden) * 2,
    )


def _doge_experts(facts: LayerFacts) -> Tensors:
    """Experts of one row and one column each, chosen by pairs of keys: two tables, whole."""
    site, config = facts.site.at("mlp"), facts.config
    if not given("is_moe")(config):
        return ()
    experts = config.positive("num_experts")
    return (
        *site.column("router_gate", facts.hidden_size, 2 * math.isqrt(experts)),
        *library_table(site, config, "down_embed", experts, facts.hidden_size),
        *library_table(site, config, "up_embed", experts, facts.hidden_size),
    )


def _jetmoe_attention(facts: LayerFacts) -> Tensors:
    """Experts choose queries and outputs; all of it is whole on every rank."""
    site, config, hidden = facts.site.at("self_attention"), facts.config, facts.hidden_size
    width = config.positive("kv_channels") * config.positive("num_key_value_heads")
    return (
        *_jetmoe_experts(site, config, hidden, width, width),
        *site.replicated("kv_proj", hidden, 2 * width),
        *cache_scales(site),
    )


def _jetmoe_feed_forward(facts: LayerFacts) -> Tensors:
    site, inner = facts.site.at("mlp"), facts.config.positive("intermediate_size")
    return _jetmoe_experts(site, facts.config, facts.hidden_size, 2 * inner, inner)


def _jetmoe_experts(site: Site, config: HfConfig, hidden: int, up: int, down: int) -> Tensors:
    count = config.positive("num_local_experts")
    return (
        *site.vector("bias", hidden),
        *site.vector("input_linear", count * up * hidden),
        *site.vector("output_linear", count * hidden * down),
        *site.replicated("router.layer", hidden, count),
    )


def _norm_of_experts(facts: LayerFacts) -> Tensors:
    return facts.site.vector("mlp.post_mlp_layernorm", facts.hidden_size)


SIGMOID_EXPERTS: Final = replace(EXPERTS, correction=always)
_LATENT: Final = replace(
    DEEPSEEK,
    feed_forward=where(sparse_layer, SIGMOID_EXPERTS, GATED),
    rope=latent_frequencies,
)


def _listed_or(unlisted: ByLayer) -> ByLayer:
    """Sparse as ``mlp_layer_types`` lists, else by the rule of the config's class."""

    def sparse(config: HfConfig, index: int) -> bool:
        listed = config.optional_list("mlp_layer_types")
        return unlisted(config, index) if listed is None else bool(listed[index] == "sparse")

    return sparse


def _after_some(config: HfConfig, index: int) -> bool:
    dense = config.optional_integer("first_k_dense_replace", minimum=0)
    step = config.optional_integer("moe_layer_freq", minimum=1) or 1
    return index >= (1 if dense is None else dense) and index % step == 0


def _opt_ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Even the last norm stands before the layers in the library's class."""
    return opt_ends(site, config, stage) if _embeds(config, stage) else ()


LIBRARY_OTHERS: Final[Mapping[str, Decoder]] = {
    **LIBRARY_BERTS,
    "aria_text": replace(ARIA, rope=_FREQUENCIES),
    "axk1": replace(
        _LATENT,
        feed_forward=where(
            _listed_or(_after_some), together(SIGMOID_EXPERTS, _norm_of_experts), GATED
        ),
    ),
    "biogpt": Decoder(
        attention=_biogpt_attention,
        feed_forward=Plain(bias=always, sharded=False),
        norms=layer_norms(2, Norm.WITH_BIAS),
        rope=no_rope,
        final_norm=Norm.WITH_BIAS,
        tied=TIED,
        extras=_biogpt_positions,
    ),
    "bitnet": Decoder(
        attention=replace(_BIASED, beside=_bitnet_attention_norm),
        feed_forward=_bitnet_feed_forward,
        rope=_FREQUENCIES,
    ),
    "deepseek_v3": _LATENT,
    "doge": Decoder(
        attention=replace(_BIASED, beside=_doge_mask),
        feed_forward=together(Gated(bias=given("mlp_bias")), _doge_experts),
        rope=_FREQUENCIES,
    ),
    "gemma4_text": GEMMA4_TEXT,
    "glm4_moe_lite": replace(
        _LATENT,
        feed_forward=where(_listed_or(lambda config, index: index > 0), SIGMOID_EXPERTS, GATED),
    ),
    "gpt_oss": Decoder(
        attention=Attention(qkv_bias=_ON, output_bias=_ON, sinks=lambda layer, config: True),
        feed_forward=_gpt_oss_experts,
        rope=_FREQUENCIES,
    ),
    "jetmoe": Decoder(
        attention=_jetmoe_attention,
        feed_forward=_jetmoe_feed_forward,
        rope=_FREQUENCIES,
        tied=TIED,
    ),
    "nanochat": Decoder(
        attention=_BIASED,
        feed_forward=Plain(),
        norms=layer_norms(0),
        rope=_FREQUENCIES,
        final_norm=Norm.NONE,
    ),
    "opt": replace(
        OPT,
        attention=whole(OPT.attention),
        feed_forward=whole(OPT.feed_forward),
        word_width=HIDDEN,
        everywhere=False,
        ends=_opt_ends,
    ),
    "phimoe": replace(
        MIXTURES["PhiMoEForCausalLM"],
        feed_forward=Experts(
            count=sized("num_local_experts"),
            intermediate=sized("intermediate_size"),
            linear_router=True,
        ),
        rope=_FREQUENCIES,
        head_bias=never,
        everywhere=False,
    ),
}
