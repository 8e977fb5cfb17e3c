"""Encoders of models that few people serve: Gemma 4 Unified, Ovis 2, MiMo V2 Omni, Molmo 2 and
Ernie 4.5 VL.

Source: vLLM 0.33.0 ``models/{gemma4_unified,ovis,aimv2,mimo_v2_omni,molmo2,ernie45_vl}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, INT64, Tensors
from kvplan_cli.memory.weights.towers.clip_like import siglip, vision
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    patches,
    pixels,
    text_hidden,
    two_linears,
    vision_rope,
)
from kvplan_cli.memory.weights.towers.qwen import patch_size

_COLOURS = 3


def gemma4_unified(site: Site, config: HfConfig) -> Tensors:
    """No encoder: patches are projected as they are; sound as well, where there is a part of it.

    The engine marks none of it as a tower, so every stage has it.
    """
    bare = site.unquantized()
    part, hidden = vision(config), text_hidden(config)
    width = part.positive("mm_embed_dim")
    side = part.positive("patch_size") * part.positive("pooling_kernel_size")
    seen = side * side * _COLOURS
    sound = config.optional_section("audio_config")
    heard = () if sound is None else (sound.positive("audio_embed_dim"),)
    return (
        *Norm.WITH_BIAS.at(site, seen, "patch_ln1"),
        *site.column("patch_dense", seen, width, bias=True),
        *Norm.WITH_BIAS.at(site, width, "patch_ln2"),
        *site.vector("pos_embedding", part.positive("mm_posemb_size") * 2 * width),
        *Norm.WITH_BIAS.at(site, width, "pos_norm"),
        *bare.replicated("embed_vision", part.positive("output_proj_dims"), hidden),
        *(t for size in heard for t in bare.replicated("embed_audio", size, hidden)),
    )


def _aimv2(site: Site, part: HfConfig) -> Tensors:
    """AIMv2 without its last norm."""
    width = part.positive("hidden_size")
    bias = part.optional_boolean("mlp_bias") is True
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        norm=Norm.ONE,
        qkv_bias=part.optional_boolean("qkv_bias") is True,
        output_bias=bias,
        mlp_bias=bias,
        gated=True,
    )
    return (
        *site.plain("patchifier.proj", pixels(part), width, bias=True),
        *Norm.ONE.at(site, width, "patchifier.norm"),
        *site.vector("pos_embed", patches(part) * width),
        *block.tensors(site, part.positive("num_hidden_layers")),
    )


_BACKBONES = {
    "aimv2": _aimv2,
    "aimv2_vision_model": _aimv2,
    "siglip_vision_model": siglip,
}
_INDICATORS = 5


def ovis2(site: Site, config: HfConfig) -> Tensors:
    """An encoder that reads out words of images, and what they mean."""
    part = config.section("visual_tokenizer_config")
    backbone = part.section("backbone_config")
    kind = backbone.text("model_type")
    if kind not in _BACKBONES:
        raise unknown(f"vision encoder {kind!r} is not described", backbone.where("model_type"))
    words, stride = part.positive("vocab_size"), part.positive("hidden_stride")
    merged = backbone.positive("hidden_size") * stride * stride
    return (
        *_BACKBONES[kind](site, backbone),
        *site.replicated("head.0", merged, words - _INDICATORS),
        *Norm.WITH_BIAS.at(site, words - _INDICATORS, "head.1"),
        *site.vector("vte", words * config.positive("hidden_size")),
    )


def mimo_v2_omni(site: Site, config: HfConfig) -> Tensors:
    """Qwen2.5-VL's encoder with grouped heads of their own sizes, and sinks beside windows."""
    part = vision(config)
    width, depth = part.positive("hidden_size"), part.positive("depth")
    heads, kv_heads = part.positive("num_heads"), part.positive("num_key_value_heads")
    keys, values = part.positive("qk_channels"), part.positive("kv_channels")
    inner, merge = part.positive("intermediate_size"), part.positive("spatial_merge_size")
    merged = width * merge * merge
    layer = (
        *site.column("qkv", width, (heads * keys, kv_heads * keys, kv_heads * values), bias=True),
        *site.row("proj", heads * values, width, bias=True),
        *site.column("gate_up_proj", width, (inner, inner), bias=True),
        *site.row("down_proj", inner, width, bias=True),
        *Norm.ONE.at(site, width) * 2,
    )
    whole = part.list("fullatt_block_indexes")
    windows = sum(index not in whole for index in range(depth))
    with_sinks = windows if part.optional_boolean("use_sink") is True else 0
    return (
        *site.plain("patch_embed.proj", patch_size(part), width),
        *layer * depth,
        *site.vector("sinks", heads) * with_sinks,
        *Norm.ONE.at(site, width, "merger.ln_q"),
        *two_linears(site, merged, merged, part.positive("out_hidden_size"), bias=False),
        *vision_rope(site, keys),
    )


def _depth_read(config: HfConfig, layers: int) -> int:
    """Layers up to the deepest one that the adapter reads."""
    listed = config.list("vit_layers")
    read = [each for each in listed if isinstance(each, int)]
    if not read or len(read) != len(listed):
        raise config.wrong("vit_layers", "a list of integers")
    return min(layers, max(each if each >= 0 else each + layers for each in read) + 1)


def molmo2(site: Site, config: HfConfig) -> Tensors:
    """The encoder up to what is read, pooling by attention, and a gated projector."""
    part, adapter = config.section("vit_config"), config.section("adapter_config")
    width, patch = part.positive("hidden_size"), part.positive("image_patch_size")
    head_size = part.positive("head_dim")
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        kv_size=part.positive("num_key_value_heads") * head_size,
    )
    pooled = adapter.positive("hidden_size")
    seen = width * len(adapter.list("vit_layers"))
    keys = adapter.positive("num_key_value_heads") * adapter.positive("head_dim")
    inner = adapter.positive("intermediate_size")
    return (
        *site.vector("positional_embedding", part.positive("image_num_pos") * width),
        *site.plain("patch_embedding", patch * patch * _COLOURS, width, bias=True),
        *block.tensors(site, _depth_read(adapter, part.positive("num_hidden_layers"))),
        *site.column("image_pooling_2d.q_proj", seen, pooled, bias=True),
        *site.column("image_pooling_2d.merged_kv", seen, (keys, keys), bias=True),
        *site.row("image_pooling_2d.o_proj", pooled, pooled, bias=True),
        *site.column("image_projector.merged_linear", pooled, (inner, inner)),
        *site.row("image_projector.down_proj", inner, adapter.positive("text_hidden_size")),
    )


def ernie4_5_vl(site: Site, config: HfConfig) -> Tensors:
    """An encoder, and a resampler over patches and over frames put together."""
    part, hidden = vision(config), text_hidden(config)
    width, heads = part.positive("embed_dim"), part.positive("num_heads")
    inner = int(width * (part.optional_number("mlp_ratio") or part.positive("mlp_ratio")))
    block = Block(hidden_size=width, intermediate_size=inner)
    spatial = config.positive("pixel_hidden_size") * config.positive("spatial_conv_size") ** 2
    temporal = spatial * config.positive("temporal_conv_size")
    over_time = (
        *site.column("temporal_linear1", temporal, spatial, bias=True),
        *site.column("temporal_linear2", spatial, spatial, bias=True),
        *Norm.WITH_BIAS.at(site, spatial, "temporal_norm"),
    )
    return (
        *site.plain("patch_embed.proj", pixels(part, "in_channels"), width),
        *block.tensors(site, part.positive("depth")),
        *Norm.WITH_BIAS.at(site, width, "ln"),
        *site.vector("rotary_pos_emb.inv_freq", width // heads // 4, FLOAT32),
        *site.column("spatial_linear1", spatial, spatial, bias=True),
        *site.column("spatial_linear2", spatial, spatial, bias=True),
        *Norm.WITH_BIAS.at(site, spatial, "spatial_norm"),
        *(over_time if config.boolean("use_temporal_conv") else ()),
        *site.column("mlp", spatial, hidden, bias=True),
        *Norm.ONE.at(site, hidden, "after_norm"),
    )


_IMAGE_WORDS = (
    "im_patch_id",
    "image_start_token_id",
    "image_end_token_id",
    "video_start_token_id",
    "video_end_token_id",
)


def ernie_image_words(site: Site, config: HfConfig) -> Tensors:
    """The words that stand for images, where the config tells the first of them."""
    if not config.optional_integer(_IMAGE_WORDS[0]):
        return ()
    words = sum(config.optional_integer(key) is not None for key in _IMAGE_WORDS)
    return site.vector("_visual_token_ids_tensor_cache", words, INT64)
