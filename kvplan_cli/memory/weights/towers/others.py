"""Llama 4, InternVL, Gemma 4 and PaddleOCR encoders.

Source: vLLM 0.33.0 ``models/{mllama4,interns1_vit,gemma4_mm,paddleocr_vl}.py``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.clip_like import block_of, siglip, vision
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    patches,
    pixels,
    text_hidden,
    two_linears,
)

_COMPLEX64 = 8


def llama4(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    width, count = part.positive("hidden_size"), patches(part) + 1
    inner, merged = part.positive("intermediate_size"), part.positive("projector_input_dim")
    outputs, seen = part.positive("projector_output_dim"), part.positive("vision_output_dim")
    rotary = width // part.positive("num_attention_heads") // 2
    return (
        *site.vector("class_embedding", width),
        *site.vector("positional_embedding_vlm", count * width),
        *site.column("patch_embedding.linear", pixels(part), width),
        *Norm.WITH_BIAS.at(site, width, "layernorm_pre"),
        *Norm.WITH_BIAS.at(site, width, "layernorm_post"),
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *site.column("vision_adapter.mlp.fc1", inner, merged),
        *site.row("vision_adapter.mlp.fc2", merged, outputs),
        *site.vector("rotary_emb.cos_sin_cache", count * rotary, _COMPLEX64),
        *site.column("multi_modal_projector.linear_1", seen, text_hidden(config)),
    )


def internvl(site: Site, config: HfConfig, *, whole_attention: bool = True) -> Tensors:
    part, hidden = vision(config), text_hidden(config)
    whole = site.replicated_site()
    width, count = part.positive("hidden_size"), patches(part) + 1
    merge = round(1 / (config.optional_number("downsample_ratio") or 0.5))
    merged = width * merge * merge
    bias = part.optional_boolean("attention_bias") is True
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        qkv_bias=bias,
        whole_attention=whole_attention,
    )
    head = () if part.optional_boolean("use_mean_pooling") is not False else (width,)
    return (
        *site.vector("cls_token", width),
        *site.vector("position_embeddings", count * width),
        *site.plain("patch_embeddings.projection", pixels(part), width, bias=True),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *site.vector("lambda", width) * (2 * part.positive("num_hidden_layers")),
        *(t for size in head for t in Norm.WITH_BIAS.at(site, size, "layernorm")),
        *Norm.WITH_BIAS.at(site, merged, "projector.layer_norm"),
        *two_linears(whole, merged, hidden, hidden),
    )


def paddle_ocr(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    width, merge = part.positive("hidden_size"), part.positive("spatial_merge_size")
    merged = width * merge * merge
    rotary = width // part.positive("num_attention_heads") // 4
    return (
        *siglip(site, part),
        *Norm.WITH_BIAS.at(site, width, "mlp_AR.pre_norm"),
        *site.plain("mlp_AR.linear_1", merged, merged, bias=True),
        *site.plain("mlp_AR.linear_2", merged, text_hidden(config), bias=True),
        *site.vector("rotary_pos_emb.inv_freq", rotary, FLOAT32),
    )


def aria(site: Site, config: HfConfig) -> Tensors:
    """An Idefics 3 encoder without its last norm, and a resampler."""
    part, hidden = vision(config), text_hidden(config)
    width = part.positive("hidden_size")
    encoder = tuple(
        tensor
        for tensor in siglip(site, part, position_ids=False)
        if not tensor.name.startswith("post_layernorm")
    )
    queries = config.positive("max_value_projector_patch_to_query_dict")
    inner = text_hidden(config)
    square = site.plain("square", width, width)
    return (
        *encoder,
        *site.vector("projector.query", queries * width),
        *square * 3,
        *site.vector("multihead_attn.in_proj_weight", 3 * width * width),
        *site.vector("multihead_attn.in_proj_bias", 3 * width),
        *site.plain("multihead_attn.out_proj", width, width, bias=True),
        *site.plain("cross_attn.linear", width, width, bias=True),
        *Norm.WITH_BIAS.at(site, width, "norm") * 3,
        *site.column("feed_forward.linear_in", width, inner),
        *site.row("feed_forward.linear_out", inner, hidden),
    )


def cosmos3(site: Site, config: HfConfig) -> Tensors:
    """SigLIP over patches that were cut out beforehand, and a wide projector."""
    part = vision(config)
    width, merge = part.positive("hidden_size"), part.positive("spatial_merge_size")
    inner = config.positive("projector_hidden_size")
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", part.positive("num_patches") * width),
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "post_layernorm"),
        *Norm.WITH_BIAS.at(site, width, "projector.norm"),
        *two_linears(site, width * merge * merge, inner, text_hidden(config)),
    )


def muse(site: Site, config: HfConfig) -> Tensors:
    part, hidden = vision(config), text_hidden(config)
    width, merge = part.positive("hidden_size"), part.positive("merge_size")
    positions = part.positive("pos_emb_height") * part.positive("pos_emb_width")
    seen = pixels(part) * part.positive("patch_temporal")
    inner = config.positive("projector_hidden_size")
    # Heads that the ranks cannot share out equally stand on each of them.
    uneven = part.positive("num_attention_heads") % site.tensor_parallel_size != 0
    block = replace(block_of(part), whole_attention=uneven, whole_mlp=True)
    return (
        *site.vector("positional_embedding_vlm", positions * width),
        *site.plain("conv1_linear", seen, width),
        *Norm.WITH_BIAS.at(site, width, "ln_pre"),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *Norm.WITH_BIAS.at(site, width, "ln_post"),
        *site.plain("vision_adapter.c_fc", width * merge * merge, inner),
        *site.plain("vision_adapter.c_proj", inner, inner),
        *site.plain("vision_projection", inner, hidden),
    )
