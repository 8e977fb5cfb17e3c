"""DeepSeek V4.1: a few layers compress the past, a few choose from it, for those behind them.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v41/{attention,compressor,common/engram,nvidia/model}
.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.deepseek_v4 import V4, latent_projections, shared_size
from kvplan_cli.memory.weights.layers import LayerFacts, size, sized, together
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.ngrams import head_rows
from kvplan_cli.memory.weights.ranks import Site, with_tokens_unstaged
from kvplan_cli.memory.weights.tensors import BYTE, FLOAT32, INT32, INT64, Tensors
from kvplan_cli.models.shape import CompressedPart, SharedLatentLayer
from kvplan_cli.units import cdiv


def _attention(facts: LayerFacts) -> Tensors:
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("attn")
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
        whole_shared=with_tokens_unstaged,
        correction=lambda config: config.optional_text("topk_method") == "noaux_tc",
    )
    return (*experts(facts), *site.vector("gate.bias_vl", count(facts.config), FLOAT32))


def _layers_with_tables(config: HfConfig) -> Sequence[int]:
    return tuple(config.optional_list("engram_layer_ids") or ())


def _hashes(config: HfConfig) -> int:
    """Heads of all lengths of n-grams together."""
    return (config.positive("engram_max_ngram_size") - 1) * config.positive("engram_n_heads")


def _engram(facts: LayerFacts) -> Tensors:
    """Tables of n-grams, whose heads are shared out, and what weighs them for each stream."""
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("engram")
    layers = _layers_with_tables(config)
    if facts.index not in layers:
        return ()
    heads, width = _hashes(config), config.positive("engram_head_dim")
    streams = config.positive("hc_mult")
    sizes = head_rows(config, "engram_vocab_size", layers.index(facts.index) * heads, heads)
    rows = sum(sizes[: cdiv(heads, site.tensor_parallel_size)])
    return (
        *site.host_table("embed_tokens", rows * width, BYTE),
        *site.host_table("embed_tokens.scale", rows * (width // _SCALED), BYTE),
        *site.column("wkv", heads * width, hidden * (streams + 1)),
        *site.vector("qk_weight", streams * hidden, _BFLOAT16) * 2,
    )


def _hash_state(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """What a stage with tables hashes tokens by, each word of the vocabulary mapped."""
    layers = _layers_with_tables(config)
    if not any(layer in stage.layers for layer in layers):
        return ()
    numbers = 2 * _hashes(config) + config.positive("engram_max_ngram_size")
    return (
        *site.vector("token_map", size(config, "vocab_size"), INT32),
        *site.vector("hash_numbers", len(layers) * numbers, INT64),
    )


# Elements of a row that share a scale.
_SCALED: Final = 32
_BFLOAT16: Final = 2
DEEPSEEK_V41: Final[Decoder] = replace(
    V4,
    attention=_attention,
    feed_forward=_feed_forward,
    beside=together(V4.beside, _engram),
    extras=_hash_state,
)
