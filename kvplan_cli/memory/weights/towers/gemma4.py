"""Gemma 4's encoders of images and sounds, in the engine's own class and in the library's.

Source: vLLM 0.33.0 ``models/gemma4_mm.py`` and ``models/transformers/base.py``; transformers
5.20.2 ``models/gemma4/modeling_gemma4.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import given
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.encoder import Block, frequencies, pixels, text_hidden

# Linear layers in a layer of each encoder, whose ends may be clipped by four numbers each.
_SEEING: Final = 7
_HEARING: Final = 10
_CLIPS: Final = 4
_KERNEL: Final = 9


def eyes(site: Site, config: HfConfig) -> Tensors:
    """The engine's own class keeps both encoders whole on every rank."""
    return _eyes(site.replicated_site(), config)


def ears(site: Site, config: HfConfig) -> Tensors:
    part = config.optional_section("audio_config")
    if part is None:
        return ()
    outputs, hidden = part.positive("output_proj_dims"), text_hidden(config)
    sounds = _sounds(site.replicated_site(), part)
    return sounds + site.plain("embed_audio.projection", outputs, hidden)


def library_gemma4(site: Site, config: HfConfig) -> Tensors:
    """The library's class shares the image encoder's layers out; either encoder may be missing."""
    return _eyes(site, config) + ears(site, config)


def _eyes(site: Site, config: HfConfig) -> Tensors:
    part = config.optional_section("vision_config")
    if part is None:
        return ()
    width, hidden = part.positive("hidden_size"), text_hidden(config)
    return _images(site, part) + site.plain("embed_vision.projection", width, hidden)


def _clips(site: Site, count: int) -> Tensors:
    return site.vector("clip", 1) * (_CLIPS * count)


def _images(site: Site, part: HfConfig) -> Tensors:
    width, head_size = part.positive("hidden_size"), part.positive("head_dim")
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        norm=Norm.ONE,
        norms=4,
        qkv_bias=False,
        key_bias=False,
        output_bias=False,
        mlp_bias=False,
        gated=True,
        head_norm=head_size,
    )
    layers = part.positive("num_hidden_layers")
    standard = part.optional_boolean("standardize") is True
    return (
        *site.vector(
            "position_embedding_table", 2 * part.positive("position_embedding_size") * width
        ),
        *site.plain("input_proj", pixels(part), width),
        *block.tensors(site, layers),
        *_clips(site, _SEEING * layers if given("use_clipped_linears")(part) else 0),
        *(site.vector("std", width) * 2 if standard else ()),
        *frequencies(site, head_size // 4),
    )


def _sounds(site: Site, part: HfConfig) -> Tensors:
    """Convolutions over time and bands, then layers between two feed-forwards."""
    hidden, layers = part.positive("hidden_size"), part.positive("num_hidden_layers")
    first, second = (int(channels) for channels in part.list("subsampling_conv_channels"))
    outputs = part.positive("output_proj_dims")
    clipped = given("use_clipped_linears", absent=True)(part)
    return (
        *site.plain("layer0.conv", _KERNEL, first),
        *Norm.ONE.at(site, first, "layer0.norm"),
        *site.plain("layer1.conv", _KERNEL * first, second),
        *Norm.ONE.at(site, second, "layer1.norm"),
        *site.plain("input_proj_linear", first // 4 * second, hidden),
        *site.vector("rel_pos_enc.inv_timescales", hidden // 2),
        *_sound_layer(site, part, hidden) * layers,
        *_clips(site, _HEARING * layers if clipped else 0),
        *site.plain("output_proj", hidden, outputs, bias=True),
    )


def _sound_layer(site: Site, part: HfConfig, hidden: int) -> Tensors:
    """Two feed-forwards around attention by relative positions and a short convolution."""
    square = site.plain("proj", hidden, hidden)
    head_size = hidden // part.positive("num_attention_heads")
    return (
        *site.plain("ffw_layer_1", hidden, 4 * hidden) * 2,
        *site.plain("ffw_layer_2", 4 * hidden, hidden) * 2,
        *square * 5,
        *site.vector("self_attn.per_dim_scale", head_size),
        *site.vector("self_attn.softcap", 1),
        *site.plain("lconv1d.linear_start", hidden, 2 * hidden),
        *site.plain("lconv1d.linear_end", hidden, hidden),
        *site.vector("lconv1d.depthwise_conv1d", hidden * part.positive("conv_kernel_size")),
        *Norm.ONE.at(site, hidden) * 9,
    )
