"""CLIP-like encoders with a projector of their own.

Source: vLLM 0.33.0 ``models/{bee,rvl,bagel,granite4_vision,lfm2_vl,lfm2_siglip2}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, INT64, Tensors
from kvplan_cli.memory.weights.towers.clip_like import (
    block_of,
    feature_depth,
    siglip,
    vision,
)
from kvplan_cli.memory.weights.towers.encoder import Block, pixels, text_hidden, two_linears
from kvplan_cli.memory.weights.towers.qformer import attention, feed_forward


def headless_siglip(site: Site, config: HfConfig) -> Tensors:
    """SigLIP up to the layer that is read; its last norm is never built."""
    encoder = siglip(site, vision(config), depth=feature_depth(config))
    return tuple(t for t in encoder if not t.name.startswith("post_layernorm"))


def _normed_linears(site: Site, config: HfConfig, factor: int) -> Tensors:
    """A norm and two linears, whole on every rank and put in the place of LLaVA's."""
    width, hidden = vision(config).positive("hidden_size"), text_hidden(config)
    whole = site.replicated_site().unquantized()
    norm = Norm.WITH_BIAS.at(site, width, "pre_norm")
    return norm + two_linears(whole, width, factor * hidden, hidden)


def bee(site: Site, config: HfConfig) -> Tensors:
    return _normed_linears(site, config, 4)


def rvl(site: Site, config: HfConfig) -> Tensors:
    return _normed_linears(site, config, 1)


_LAST_LAYERS = 27


def bagel(site: Site, config: HfConfig) -> Tensors:
    """SigLIP without the last of its 27 layers, two linears, fixed positions."""
    if config.optional_boolean("visual_und") is False:
        return ()
    part, hidden = config.section("vit_config"), text_hidden(config)
    layers = part.positive("num_hidden_layers")
    shortened = part.with_value("num_hidden_layers", layers - (layers == _LAST_LAYERS))
    side = config.positive("vit_max_num_patch_per_side")
    return (
        *siglip(site, shortened),
        *two_linears(site, part.positive("hidden_size"), hidden, hidden),
        *site.vector("vit_pos_embed", side * side * hidden, FLOAT32),
    )


_WINDOW_FEED_FORWARD = 3072
_SPATIAL_GROUPS = 4


def granite4(site: Site, config: HfConfig) -> Tensors:
    """SigLIP, and a querying transformer of one layer for each place that is fed."""
    part, hidden = vision(config), text_hidden(config)
    width = part.positive("hidden_size")
    query, window = (int(side) for side in config.text("downsample_rate").split("/"))
    encoder = siglip(site, part)
    former = (
        *Norm.WITH_BIAS.at(site, width, "layernorm"),
        *attention(site, width, width),
        *attention(site, width, width),
        *feed_forward(site, width, _WINDOW_FEED_FORWARD),
        *Norm.WITH_BIAS.at(site, width, "norm"),
        *site.vector("query", query * query * width),
        *site.vector("image_positions", window * window * width),
        *site.plain("out_linear", width, hidden, bias=True),
    )
    projectors = len(config.list("deepstack_layer_map")) + _SPATIAL_GROUPS
    return (
        *(t for t in encoder if not t.name.startswith("post_layernorm")),
        *former * projectors,
    )


def lfm2(site: Site, config: HfConfig) -> Tensors:
    """SigLIP 2 over patches that were cut out beforehand, and a projector."""
    part = vision(config)
    width, factor = part.positive("hidden_size"), config.positive("downsample_factor")
    merged, inner = width * factor * factor, config.positive("projector_hidden_size")
    bias = config.optional_boolean("projector_bias") is not False
    block: Block = block_of(part)
    normed = config.optional_boolean("projector_use_layernorm") is not False
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", part.positive("num_patches") * width),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "post_layernorm"),
        *(Norm.WITH_BIAS.at(site, merged, "layer_norm") if normed else ()),
        *site.plain("linear_1", merged, inner, bias=bias),
        *site.plain("linear_2", inner, text_hidden(config), bias=bias),
    )


def phi4_siglip(site: Site, config: HfConfig) -> Tensors:
    """SigLIP 2 without its last norm and last layer, and two linears."""
    part, hidden = vision(config), text_hidden(config)
    width = part.positive("hidden_size")
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", part.positive("num_patches") * width),
        *block_of(part).tensors(site, part.positive("num_hidden_layers") - 1),
        *two_linears(site, width, hidden, hidden),
    )


# Phi-3's encoder is OpenAI's CLIP at 336 pixels. Source: vLLM 0.33.0 ``models/phi3v.py``.
_CLIP_WIDTH, _CLIP_INNER, _CLIP_LAYERS = 1024, 4096, 23
_CLIP_PIXELS, _CLIP_POSITIONS = 14 * 14 * 3, 577
_PUT_TOGETHER = 4


def phi3(site: Site, config: HfConfig) -> Tensors:
    """CLIP, two learned separators, two linears, and a second embedding of the words."""
    width, hidden = _CLIP_WIDTH, text_hidden(config)
    merged = config.section("img_processor").positive("image_dim_out") * _PUT_TOGETHER
    block = Block(hidden_size=width, intermediate_size=_CLIP_INNER)
    return (
        *site.vector("separators", 2 * merged),
        *site.vector("class_embedding", width),
        *site.plain("patch_embedding", _CLIP_PIXELS, width),
        *site.vector("position_embedding", _CLIP_POSITIONS * width),
        *Norm.WITH_BIAS.at(site, width, "pre_layernorm"),
        *block.tensors(site, _CLIP_LAYERS),
        *site.vector("position_ids", _CLIP_POSITIONS, INT64),
        *site.plain("img_projection.0", merged, hidden, bias=True),
        *site.plain("img_projection.2", hidden, hidden, bias=True),
    )


def phi3_words(site: Site, config: HfConfig) -> Tensors:
    """The embedding of the whole model, beside the language part's own."""
    return site.embedding("embed_tokens", config.positive("vocab_size"), text_hidden(config))


_INDICATORS = 4


def ovis(site: Site, config: HfConfig) -> Tensors:
    """SigLIP 2 that reads out words of images, and what they mean."""
    part, hidden = config.section("vit_config"), config.positive("hidden_size")
    width, stride = part.positive("hidden_size"), part.positive("hidden_stride")
    words = config.positive("visual_vocab_size")
    side = part.positive("image_size") // part.positive("patch_size")
    rotary = width // part.positive("num_attention_heads") // 2
    turns = part.optional_boolean("use_rope") is True
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", side * side * width),
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "post_layernorm"),
        *site.replicated("head.0", width * stride * stride, words - _INDICATORS),
        *Norm.WITH_BIAS.at(site, words - _INDICATORS, "head.1"),
        *site.vector("vte", words * hidden),
        *(site.vector("rotary_pos_emb.inv_freq", rotary // 2, FLOAT32) if turns else ()),
    )
