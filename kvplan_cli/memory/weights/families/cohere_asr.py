"""Cohere's speech recognition: a decoder with attention to the encoder's outputs.

Source: vLLM 0.33.0 ``models/cohere_asr.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.layers import LayerFacts, always, nothing
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import no_rope
from kvplan_cli.memory.weights.tensors import Tensors


def _part(config: HfConfig) -> HfConfig:
    return config.section("transf_decoder").section("config_dict")


def _layer(facts: LayerFacts) -> Tensors:
    """Attention to the past, then to the encoder's outputs, then a feed-forward."""
    part, site = _part(facts.config), facts.site
    hidden, inner = part.positive("hidden_size"), part.positive("inner_size")
    return (
        *site.column("first_sub_layer.qkv_proj", hidden, (hidden,) * 3, bias=True),
        *site.row("first_sub_layer.out_projection", hidden, hidden, bias=True),
        *site.column("second_sub_layer.q_proj", hidden, hidden, bias=True),
        # A projection of queries, keys and values, with no queries in it.
        *site.column("second_sub_layer.kv_proj", hidden, (0, hidden, hidden), bias=True),
        *site.row("second_sub_layer.out_projection", hidden, hidden, bias=True),
        *cache_scales(site) * 2,
        *site.column("third_sub_layer.dense_in", hidden, inner, bias=True),
        *site.row("third_sub_layer.dense_out", inner, hidden, bias=True),
        *Norm.WITH_BIAS.at(site, hidden) * 3,
    )


def _ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Every rank holds the whole embedding; the head is another matrix, shared out."""
    part, head = _part(config), config.section("head")
    hidden, words = part.positive("hidden_size"), head.positive("num_classes")
    return (
        *site.vector("token_embedding", words * hidden),
        *site.vector("position_embedding", part.positive("max_sequence_length") * hidden),
        *Norm.WITH_BIAS.at(site, hidden, "embedding.layer_norm"),
        *Norm.WITH_BIAS.at(site, hidden, "final_layer_norm"),
        *site.head(words, head.positive("hidden_size")),
        *site.embedding("lm_head_bias", words, 1),
    )


COHERE_ASR: Final = Decoder(
    attention=_layer,
    feed_forward=nothing,
    norms=nothing,
    rope=no_rope,
    tied=always,
    ends=_ends,
)
