"""Moondream 3: attention that weighs its heads by words and positions, experts by whole ranks.

Source: vLLM 0.33.0 ``models/moondream3.py``.
"""

from __future__ import annotations

from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.feed_forward import Plain
from kvplan_cli.memory.weights.layers import LayerFacts, always, never, where
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, INT32, Tensors
from kvplan_cli.memory.weights.towers.encoder import Block
from kvplan_cli.models.moondream3 import language_part, vision_part
from kvplan_cli.models.shape import AttentionLayer

_COLOURS: Final = 3
# Elements of a head that turn, whatever its size.
_TURNING: Final = 32


def _tau(facts: LayerFacts) -> Tensors:
    """What scales this rank's queries and values, from whole queries, keys and values."""
    site, heads = facts.site.at("attn"), facts.site.share(facts.attention.num_attention_heads)
    return (
        *site.vector("tau_alpha", heads),
        *site.vector("tau_w", heads * 3 * facts.hidden_size) * 2,
    )


def _sparse(config: HfConfig, index: int) -> bool:
    return index >= config.section("moe").integer("start_layer")


def _experts(facts: LayerFacts) -> Tensors:
    """Whole experts of this rank, never quantized, and a bias that shifts half of each."""
    site, hidden, part = facts.site.at("mlp"), facts.hidden_size, facts.config.section("moe")
    count, inner = part.positive("n_experts"), part.positive("expert_inner_dim")
    held = count // site.tensor_parallel_size
    return (
        *site.plain("gate", hidden, count, bias=True),
        *site.vector("fc1_weight", held * 2 * inner * hidden),
        *site.vector("fc2_weight", held * inner * hidden),
        *site.vector("expert_map", count, INT32),
        *site.vector("_fused_w1_bias", held * 2 * inner, FLOAT32),
    )


def _part_of_a_head(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    return {"rope_type": "default", "rope_dim": _TURNING}


def _encoder(site: Site, config: HfConfig) -> Tensors:
    """An encoder of one crop, and a projector over it beside the whole image."""
    part, hidden = vision_part(config), language_part(config).positive("hidden_size")
    width, patch = part.positive("enc_dim"), part.positive("enc_patch_size")
    inner = part.positive("proj_inner_dim")
    block = Block(hidden_size=width, intermediate_size=part.positive("enc_ff_dim"))
    return (
        *site.plain("patch_emb", patch * patch * _COLOURS, width, bias=True),
        *site.vector("pos_emb", (part.positive("crop_size") // patch) ** 2 * width),
        *block.tensors(site, part.positive("enc_n_layers")),
        *Norm.WITH_BIAS.at(site, width, "post_ln"),
        *site.column("vision_proj.fc1", 2 * width, inner, bias=True),
        *site.row("vision_proj.fc2", inner, hidden, bias=True),
    )


_DECODER: Final = Decoder(
    attention=Attention(path="attn", qkv_bias=always, output_bias=always, beside=_tau),
    feed_forward=where(_sparse, _experts, Plain(bias=always)),
    norms=layer_norms(1, Norm.WITH_BIAS),
    rope=RopeTables(adjust=_part_of_a_head),
    final_norm=Norm.WITH_BIAS,
    tied=never,
    head_bias=always,
    everywhere=True,
)
MOONDREAM: Final = Wrapper(decoder=_DECODER, towers=(_encoder,), tied=never)
