"""Querying transformers, and the BLIP-2 and Granite Speech models that use them.

Source: vLLM 0.33.0 ``models/{blip2,granite_speech}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.memory.weights.towers.encoder import Block, patches, pixels, text_hidden


def attention(site: Site, hidden: int, seen: int) -> Tensors:
    """Queries from the hidden states, keys and values from what is attended to."""
    return (
        *site.plain("query", hidden, hidden, bias=True),
        *site.plain("key", seen, hidden, bias=True),
        *site.plain("value", seen, hidden, bias=True),
        *site.plain("output.dense", hidden, hidden, bias=True),
        *Norm.WITH_BIAS.at(site, hidden, "output.LayerNorm"),
    )


def feed_forward(site: Site, hidden: int, inner: int) -> Tensors:
    return (
        *site.plain("intermediate_query", hidden, inner, bias=True),
        *site.plain("output_query", inner, hidden, bias=True),
        *Norm.WITH_BIAS.at(site, hidden, "output_query.LayerNorm"),
    )


def qformer(site: Site, part: HfConfig) -> Tensors:
    """Layers of self-attention, every few with a cross-attention to the encoder."""
    hidden, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    layers, step = part.positive("num_hidden_layers"), part.positive("cross_attention_frequency")
    crossed = len(range(0, layers, step))
    own = attention(site, hidden, hidden) + feed_forward(site, hidden, inner)
    cross = attention(site, hidden, part.positive("encoder_hidden_size"))
    return (*Norm.WITH_BIAS.at(site, hidden, "layernorm"), *own * layers, *cross * crossed)


def blip2(site: Site, config: HfConfig) -> Tensors:
    part, former = config.section("vision_config"), config.section("qformer_config")
    width, hidden = part.positive("hidden_size"), former.positive("hidden_size")
    block = Block(hidden_size=width, intermediate_size=part.positive("intermediate_size"))
    return (
        *site.vector("class_embedding", width),
        *site.vector("position_embedding", (patches(part) + 1) * width),
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "post_layernorm"),
        *qformer(site, former),
        *site.plain("language_projection", hidden, text_hidden(config), bias=True),
    )


def query_tokens(site: Site, config: HfConfig) -> Tensors:
    """What queries the encoder: of no module, so every stage keeps it."""
    hidden = config.section("qformer_config").positive("hidden_size")
    return site.vector("query_tokens", config.positive("num_query_tokens") * hidden)


def _conformer_layer(site: Site, part: HfConfig) -> Tensors:
    """Half a feed-forward, attention, convolutions, another half."""
    width = part.positive("hidden_dim")
    inner = width * part.positive("feedforward_mult")
    heads, size = part.positive("num_heads"), part.positive("dim_head")
    wide = width * part.positive("conv_expansion_factor")
    norm = Norm.WITH_BIAS.at(site, width)
    half = (
        *norm,
        *site.column("up_proj", width, inner, bias=True),
        *site.row("down_proj", inner, width, bias=True),
    )
    attention = (
        *norm,
        *site.plain("to_q", width, heads * size),
        *site.plain("to_kv", width, 2 * heads * size),
        *site.plain("to_out", heads * size, width, bias=True),
        *site.vector("rel_pos_emb", (2 * part.positive("max_pos_emb") + 1) * size),
    )
    convolution = (
        *norm,
        *site.plain("up_conv", width, 2 * wide, bias=True),
        *site.vector("depth_conv", wide * part.positive("conv_kernel_size")),
        *site.vector("batch_norm", wide) * 4,
        *site.vector("num_batches_tracked", 1, INT64),
        *site.plain("down_conv", wide, width, bias=True),
    )
    return half * 2 + attention + convolution + norm


def granite_speech(site: Site, config: HfConfig) -> Tensors:
    part, former = config.section("encoder_config"), config.section("projector_config")
    width, outputs = part.positive("hidden_dim"), part.positive("output_dim")
    hidden = former.positive("hidden_size")
    queries = config.positive("window_size") // config.positive("downsample_rate")
    return (
        *site.plain("input_linear", part.positive("input_dim"), width, bias=True),
        *_conformer_layer(site, part) * part.positive("num_layers"),
        *site.column("out", width, outputs, bias=True),
        *site.row("out_mid", outputs, width, bias=True),
        *site.vector("projector.query", queries * hidden),
        *qformer(site, former),
        *site.plain("projector.linear", hidden, text_hidden(config), bias=True),
    )
