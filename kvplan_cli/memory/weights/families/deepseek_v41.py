"""DeepSeek V4.1: a few layers compress the past, a few choose from it, for those behind them.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v41/{attention,compressor,nvidia/model}.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, no_extras
from kvplan_cli.memory.weights.families.deepseek_v4 import V4, latent_projections, shared_size
from kvplan_cli.memory.weights.layers import LayerFacts, sized
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.shape import CompressedPart, SharedLatentLayer


def _attention(facts: LayerFacts) -> Tensors:
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("attn")
    if facts.index in (config.optional_list("engram_layer_ids") or ()):
        raise unknown("the tables of engram layers are not described", config.origin)
    layer = next(
        cache
        for cache in facts.caches
        if isinstance(cache, SharedLatentLayer) and cache.part is CompressedPart.VECTORS
    )
    width = config.positive("head_dim")
    gated = 2 if layer.compress_ratio > 1 else 1
    compressor = (
        *site.plain("compressor.fused_wkv_wgate", hidden, gated * width),
        *site.vector("compressor.norm", width),
    )
    return (
        *latent_projections(facts),
        *(compressor if layer.owns else ()),
        *(_indexer(site, config, hidden, owns=layer.owns) if layer.chooses else ()),
    )


def _indexer(site: Site, config: HfConfig, hidden: int, *, owns: bool) -> Tensors:
    """owns: it makes the keys that others choose by, from the vectors."""
    heads, width = config.positive("index_n_heads"), config.positive("index_head_dim")
    inside = site.at("indexer")
    keys = (
        *inside.plain("wk", config.positive("head_dim"), width),
        *inside.vector("k_norm", width),
    )
    return (
        *inside.replicated("wq_b", config.positive("q_lora_rank"), heads * width),
        *inside.plain("weights_proj", hidden, heads),
        *(keys if owns else ()),
    )


def _feed_forward(facts: LayerFacts) -> Tensors:
    """The router has a bias for images, and one for text where the config asks for it."""
    site, count = facts.site.at("ffn"), sized("n_routed_experts")
    experts = Experts(
        path="ffn",
        count=count,
        shared=lambda config: shared_size(site, config),
        correction=lambda config: config.optional_text("topk_method") == "noaux_tc",
    )
    return (*experts(facts), *site.vector("gate.bias_vl", count(facts.config), FLOAT32))


DEEPSEEK_V41: Final[Decoder] = replace(
    V4, attention=_attention, feed_forward=_feed_forward, extras=no_extras
)
