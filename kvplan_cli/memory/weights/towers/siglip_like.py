"""Vision encoders on SigLIP's frame, each with a projector of its own.

Source: vLLM 0.33.0 ``models/{keye,keye_vl1_5,eagle2_5_vl,nemotron_vl,dots_ocr,molmo,
llava_onevision2,isaac}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.clip_like import block_of, siglip, vision
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    pixels,
    text_hidden,
    two_linears,
)

_PACKED_POSITIONS = 32768


def _keye_encoder(site: Site, part: HfConfig) -> Tensors:
    """SigLIP with positions for packed images, and a rotation beside them."""
    width = part.positive("hidden_size")
    rotary = width // part.positive("num_attention_heads") // 2
    return (
        *siglip(site, part),
        *site.vector("packing_position_embedding", _PACKED_POSITIONS * width),
        *site.vector("rotary_pos_emb.inv_freq", rotary // 2, FLOAT32),
    )


def _keye_merged(part: HfConfig) -> int:
    merge = part.positive("spatial_merge_size")
    return part.positive("hidden_size") * merge * merge


def keye(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    merged = _keye_merged(part)
    return (
        *_keye_encoder(site, part),
        *Norm.WITH_BIAS.at(site, part.positive("hidden_size"), "mlp_AR.pre_norm"),
        *two_linears(site, merged, merged, text_hidden(config)),
    )


def keye_1_5(site: Site, config: HfConfig) -> Tensors:
    """The norm stands behind the merging."""
    part = vision(config)
    merged = _keye_merged(part)
    return (
        *_keye_encoder(site, part),
        *Norm.WITH_BIAS.at(site, merged, "mlp_AR.pre_norm"),
        *two_linears(site, merged, merged, text_hidden(config)),
    )


def _shuffled(config: HfConfig) -> int:
    ratio = config.optional_number("downsample_ratio")
    if not ratio:
        raise config.wrong("downsample_ratio", "a number above zero")
    return vision(config).positive("hidden_size") * int(1 / ratio) ** 2


def eagle(site: Site, config: HfConfig) -> Tensors:
    hidden, merged = text_hidden(config), _shuffled(config)
    return (
        *siglip(site, vision(config)),
        *Norm.WITH_BIAS.at(site, merged, "mlp1.0"),
        *site.plain("mlp1.1", merged, hidden, bias=True),
        *site.plain("mlp1.3", hidden, hidden, bias=True),
    )


def dots(site: Site, config: HfConfig) -> Tensors:
    """A gated encoder of image patches; only its merger is shared out otherwise."""
    part = vision(config)
    width, merge = part.positive("embed_dim"), part.positive("spatial_merge_size")
    bias = part.optional_boolean("use_bias") is True
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        norm=Norm.ONE,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
        gated=True,
    )
    merged = width * merge * merge
    last = part.optional_boolean("post_norm") is not False
    rotary = width // part.positive("num_attention_heads") // 2
    return (
        *site.plain("patch_embed.proj", pixels(part), width, bias=True),
        *Norm.ONE.at(site, width, "patch_embed.norm"),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *(Norm.ONE.at(site, width, "post_trunk_norm") if last else ()),
        *Norm.WITH_BIAS.at(site, width, "merger.ln_q"),
        *two_linears(site, merged, merged, part.positive("hidden_size")),
        *site.vector("rotary_pos_emb.inv_freq", rotary // 2, FLOAT32),
    )


# Molmo's encoder is OpenAI's CLIP at 336 pixels, whatever the config.
# Source: vLLM 0.33.0 ``models/molmo.py:VisionBackboneConfig``.
_MOLMO_WIDTH, _MOLMO_INNER, _MOLMO_LAYERS = 1024, 4096, 23
_MOLMO_PIXELS, _MOLMO_POSITIONS = 14 * 14 * 3, 577
_MOLMO_READ, _MOLMO_PADS = 2, 2


def molmo(site: Site, config: HfConfig) -> Tensors:
    """The encoder, pooling by attention over two layers' outputs, and a gated projector."""
    width, hidden = _MOLMO_WIDTH, text_hidden(config)
    read = _MOLMO_READ * width
    inner = config.positive("intermediate_size") // 2
    block = Block(hidden_size=width, intermediate_size=_MOLMO_INNER)
    return (
        *site.vector("pad_embed", _MOLMO_PADS * read),
        *site.vector("class_embedding", width),
        *site.vector("positional_embedding", _MOLMO_POSITIONS * width),
        *site.plain("patch_embedding", _MOLMO_PIXELS, width),
        *Norm.WITH_BIAS.at(site, width, "pre_ln"),
        *block.tensors(site, _MOLMO_LAYERS),
        *site.column("image_pooling_2d.wq", read, width, bias=True),
        *site.column("image_pooling_2d.wk", read, width, bias=True),
        *site.column("image_pooling_2d.wv", read, width, bias=True),
        *site.row("image_pooling_2d.wo", width, width, bias=True),
        *site.column("image_projector.merged_linear", width, (inner, inner)),
        *site.row("image_projector.down_proj", inner, hidden),
    )


def llava_onevision2(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    width, merge = part.positive("hidden_size"), part.positive("spatial_merge_size")
    merged = width * merge * merge
    half = width // part.positive("num_attention_heads") // 2
    return (
        *site.plain("patch_embedding", pixels(part), width),
        *Norm.WITH_BIAS.at(site, width, "layernorm_pre"),
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "merger.ln_q"),
        *two_linears(site, merged, merged, text_hidden(config)),
        *site.vector("rotary_pos_emb.inv_freq", half, FLOAT32),
    )


def isaac(site: Site, config: HfConfig) -> Tensors:
    """SigLIP 2 over patches that were cut out beforehand, and two linears without biases."""
    part = vision(config)
    width, factor = part.positive("hidden_size"), part.positive("pixel_shuffle_scale_factor")
    merged, hidden = width * factor * factor, text_hidden(config)
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", part.positive("num_patches") * width),
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "post_layernorm"),
        *site.column("linear_fc1", merged, 4 * merged),
        *site.row("linear_fc2", 4 * merged, hidden),
    )
