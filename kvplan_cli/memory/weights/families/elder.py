"""Older decoders: learned positions, biases everywhere, no gates.

Source: vLLM 0.33.0 ``models/{gpt2,gpt_bigcode,gpt_j,opt,bloom,falcon}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.feed_forward import Plain
from kvplan_cli.memory.weights.layers import (
    VOCABULARY,
    LayerFacts,
    Size,
    always,
    given,
    never,
    size,
    sized,
    times_hidden,
)
from kvplan_cli.memory.weights.library_tables import library_table
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables, no_rope
from kvplan_cli.memory.weights.tensors import BYTE, Tensors
from kvplan_cli.models.shape import AttentionLayer

TIED: Final = given("tie_word_embeddings", absent=True)
_LAYER_NORMS: Final = layer_norms(2, Norm.WITH_BIAS)
_FOUR_TIMES: Final[Size] = times_hidden(4, "n_inner")
_OPT_OFFSET: Final = 2
_AFFINE: Final = given("layer_norm_elementwise_affine", absent=True)


def _positions(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden = size(config, "hidden_size")
    return site.vector("wpe.weight", size(config, "max_position_embeddings") * hidden)


def _with_mask(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Positions stand with the embedding; the mask stands on every stage."""
    positions, hidden = size(config, "max_position_embeddings"), size(config, "hidden_size")
    mask = site.vector("bias", positions * positions, BYTE)
    embeds = stage.is_first or (stage.is_last and TIED(config))
    return (library_table(site, config, "wpe", positions, hidden) if embeds else ()) + mask


_CODE_ATTENTION: Final = Attention(path="attn", qkv_bias=always, output_bias=always)


def _code_attention(facts: LayerFacts) -> Tensors:
    """Shared out only where all queries have one key: else the matrix is not taken apart."""
    if given("multi_query", absent=True)(facts.config):
        return _CODE_ATTENTION(facts)
    return _CODE_ATTENTION(replace(facts, site=facts.site.replicated_site()))


def _opt_width(config: HfConfig) -> int:
    """The width of the words' embeddings, which may be narrower than the layers."""
    hidden = size(config, "hidden_size")
    return config.optional_integer("word_embed_proj_dim", minimum=1) or hidden


def _opt_norm(config: HfConfig) -> Norm:
    return Norm.WITH_BIAS if _AFFINE(config) else Norm.NONE


def opt_ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """All that stands beside the layers: embeddings, projections where words are narrower, and
    a last norm where the layers' norms come first."""
    hidden, narrow = size(config, "hidden_size"), _opt_width(config)
    rows = size(config, "max_position_embeddings") + _OPT_OFFSET
    tensors = site.embedding("embed_tokens", VOCABULARY(config), narrow)
    tensors += site.vector("embed_positions.weight", rows * hidden)
    if narrow != hidden:
        tensors += site.replicated("project_in", narrow, hidden)
        tensors += site.replicated("project_out", hidden, narrow)
    removed = given("_remove_final_layer_norm")(config)
    if given("do_layer_norm_before", absent=True)(config) and not removed:
        tensors += _opt_norm(config).at(site, hidden, "final_layer_norm")
    return tensors


def _bloom_extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden = size(config, "hidden_size")
    return Norm.WITH_BIAS.at(site, hidden, "word_embeddings_layernorm")


def _opt_norms(facts: LayerFacts) -> Tensors:
    return layer_norms(2, _opt_norm(facts.config))(facts)


def _falcon_norms(facts: LayerFacts) -> Tensors:
    """One norm before both branches, or one for each."""
    config = facts.config
    given_count = config.optional_integer("num_ln_in_parallel_attn", minimum=1)
    new = given("new_decoder_architecture")(config)
    parallel = given("parallel_attn", absent=True)(config)
    separate = given_count == 2 or (given_count is None and new) or (not new and not parallel)
    return layer_norms(2 if separate else 1, Norm.WITH_BIAS)(facts)


def _gptj_rotary(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    return {"rope_type": "default", "rope_dim": config.positive("rotary_dim")}


def _falcon_rotates(layer: AttentionLayer, config: HfConfig) -> bool:
    return not given("alibi")(config)


_GPT2: Final = Decoder(
    attention=Attention(path="attn", qkv_bias=always, output_bias=always),
    feed_forward=Plain(intermediate=_FOUR_TIMES, bias=always),
    norms=_LAYER_NORMS,
    rope=no_rope,
    final_norm=Norm.WITH_BIAS,
    tied=TIED,
    everywhere=True,
    extras=_positions,
)


_BIAS: Final = given("bias")
_OPT_BIAS: Final = given("enable_bias", absent=True)
OPT: Final = Decoder(
    attention=Attention(qkv_bias=_OPT_BIAS, output_bias=_OPT_BIAS),
    feed_forward=Plain(intermediate=sized("ffn_dim"), bias=_OPT_BIAS),
    norms=_opt_norms,
    rope=no_rope,
    word_width=_opt_width,
    tied=TIED,
    everywhere=True,
    ends=opt_ends,
)

ELDER: Final[Mapping[str, Decoder]] = {
    "GPT2LMHeadModel": _GPT2,
    "GPTBigCodeForCausalLM": replace(
        _GPT2,
        attention=_code_attention,
        feed_forward=Plain(intermediate=_FOUR_TIMES, bias=always, sharded=False),
        everywhere=False,
        extras=_with_mask,
    ),
    "GPTJForCausalLM": Decoder(
        attention=Attention(path="attn"),
        feed_forward=Plain(intermediate=_FOUR_TIMES, bias=always),
        norms=layer_norms(1, Norm.WITH_BIAS),
        rope=RopeTables(adjust=_gptj_rotary),
        final_norm=Norm.WITH_BIAS,
        tied=never,
        head_bias=always,
        everywhere=True,
    ),
    "OPTForCausalLM": OPT,
    "BloomForCausalLM": Decoder(
        attention=Attention(path="self_attention", qkv_bias=always, output_bias=always),
        feed_forward=Plain(intermediate=times_hidden(4), bias=always),
        norms=_LAYER_NORMS,
        rope=no_rope,
        final_norm=Norm.WITH_BIAS,
        tied=TIED,
        everywhere=True,
        extras=_bloom_extras,
    ),
    "FalconForCausalLM": Decoder(
        attention=Attention(path="self_attention", qkv_bias=_BIAS, output_bias=_BIAS),
        feed_forward=Plain(intermediate=times_hidden(4, "ffn_hidden_size"), bias=_BIAS),
        norms=_falcon_norms,
        rope=RopeTables(rotates=_falcon_rotates),
        final_norm=Norm.WITH_BIAS,
        tied=TIED,
        everywhere=True,
    ),
}
