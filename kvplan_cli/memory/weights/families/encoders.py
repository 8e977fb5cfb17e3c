"""Text encoders: BERT kin, without a head.

Source: vLLM 0.33.0 ``models/{bert,roberta,modernbert}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.feed_forward import Gated, Plain
from kvplan_cli.memory.weights.layers import LayerFacts, always, given, size
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables, no_rope
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.models.shape import AttentionKind, AttentionLayer


def _bert_embeddings(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden, positions = size(config, "hidden_size"), config.positive("max_position_embeddings")
    return (
        *site.embedding("position_embeddings", positions, hidden),
        *site.embedding("token_type_embeddings", config.positive("type_vocab_size"), hidden),
        *Norm.WITH_BIAS.at(site, hidden, "embeddings.LayerNorm"),
        *site.vector("position_ids", positions, INT64),
    )


def _modernbert_norms(facts: LayerFacts) -> Tensors:
    """The first layer has no norm before its attention."""
    norm = Norm.WITH_BIAS if given("norm_bias")(facts.config) else Norm.ONE
    return layer_norms(1 if facts.index == 0 else 2, norm)(facts)


def _modernbert_embeddings(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    norm = Norm.WITH_BIAS if given("norm_bias")(config) else Norm.ONE
    return norm.at(site, size(config, "hidden_size"), "embeddings.norm")


def _local_theta(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Local and global layers rotate by thetas of their own."""
    section = config.optional_section("rope_parameters")
    if section is not None and section.has("full_attention"):
        kind = "full_attention" if _is_global(layer, config) else "sliding_attention"
        return dict(section.section(kind).values)
    key = "global_rope_theta" if _is_global(layer, config) else "local_rope_theta"
    return {"rope_type": "default", "rope_theta": config.optional_number(key) or key}


def _is_global(layer: AttentionLayer, config: HfConfig) -> bool:
    kinds = config.optional_list("layer_types")
    if kinds is not None:
        return bool(kinds[layer.decoder_layer] == "full_attention")
    step = config.optional_integer("global_attn_every_n_layers", minimum=1)
    if step is not None:
        return layer.decoder_layer % step == 0
    return layer.kind is not AttentionKind.SLIDING


def _learned_positions(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    positions = config.positive("max_position_embeddings")
    return site.embedding("position_embedding", positions, size(config, "hidden_size"))


def _positions_with_ids(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    positions = config.positive("max_position_embeddings")
    ids = site.vector("position_ids", positions, INT64)
    return _learned_positions(site, config, stage) + ids


CLIP_TEXT: Final = Decoder(
    attention=Attention(qkv_bias=always, output_bias=always),
    feed_forward=Plain(bias=always),
    norms=layer_norms(2, Norm.WITH_BIAS),
    rope=no_rope,
    final_norm=Norm.WITH_BIAS,
    tied=always,
    everywhere=True,
    extras=_learned_positions,
)
SIGLIP_TEXT: Final = replace(CLIP_TEXT, extras=_positions_with_ids)
BERT: Final = Decoder(
    attention=Attention(path="attention", qkv_bias=always, output_bias=always),
    feed_forward=Plain(bias=always),
    norms=layer_norms(2, Norm.WITH_BIAS),
    rope=no_rope,
    final_norm=Norm.NONE,
    tied=always,
    everywhere=True,
    extras=_bert_embeddings,
)
MODERNBERT: Final = Decoder(
    attention=Attention(
        path="attn", qkv_bias=given("attention_bias"), output_bias=given("attention_bias")
    ),
    feed_forward=Gated(bias=given("mlp_bias")),
    norms=_modernbert_norms,
    rope=RopeTables(adjust=_local_theta),
    tied=always,
    everywhere=True,
    extras=_modernbert_embeddings,
)
ENCODERS: Final[Mapping[str, Decoder]] = {
    "BertModel": BERT,
    "RobertaModel": BERT,
    "ModernBertModel": MODERNBERT,
}
