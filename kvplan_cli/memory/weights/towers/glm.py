"""GLM's vision encoders.

Source: vLLM 0.33.0 ``models/{glm4v,glm4_1v,glm_ocr}.py``, ``vllm/models/glm5next``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    patches,
    pixels,
    text_hidden,
    vision_rope,
)


def _frame(site: Site, part: HfConfig, block: Block, merger: str = "intermediate_size") -> Tensors:
    """What the generations share: patches, blocks, downsampling, a merger of the size named."""
    width, outputs = part.positive("hidden_size"), part.positive("out_hidden_size")
    merge, inner = part.positive("spatial_merge_size"), part.positive(merger)
    pixel_count = pixels(part, "in_channels") * part.positive("temporal_patch_size")
    return (
        *site.plain("patch_embed.proj", pixel_count, width, bias=True),
        *block.tensors(site, part.positive("depth")),
        *site.column("merger.proj", outputs, outputs),
        *Norm.WITH_BIAS.at(site, outputs, "merger.post_projection_norm"),
        *site.column("merger.gate_up_proj", outputs, (inner, inner)),
        *site.row("merger.down_proj", inner, outputs),
        *site.plain("downsample", width * merge * merge, outputs, bias=True),
        *Norm.ONE.at(site, width, "post_layernorm"),
    )


def _rope(site: Site, part: HfConfig) -> Tensors:
    return vision_rope(site, part.positive("hidden_size") // part.positive("num_heads"))


def glm4v(site: Site, config: HfConfig) -> Tensors:
    part = config.section("vision_config")
    width, count = part.positive("hidden_size"), patches(part)
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("out_hidden_size"),
        norm=Norm.ONE,
        qkv_bias=part.optional_boolean("attention_bias") is True,
        output_bias=False,
        mlp_bias=False,
        gated=True,
    )
    return (
        *_frame(site, part, block),
        *_rope(site, part),
        *site.vector("position_embedding", count * width),
        *Norm.ONE.at(site, width, "post_conv_layernorm"),
        *site.vector("position_ids", count, INT64),
    )


def eva(site: Site, config: HfConfig) -> Tensors:
    """GLM-4V's first generation: EVA's CLIP, and a gated projector of its own."""
    part, hidden = config.section("vision_config"), text_hidden(config)
    width, inner = part.positive("hidden_size"), config.positive("ffn_hidden_size")
    pixel_count = part.positive("patch_size") ** 2 * part.positive("in_channels")
    block = Block(hidden_size=width, intermediate_size=part.positive("intermediate_size"))
    return (
        *site.vector("boi", hidden) * 2,
        *site.vector("cls_embedding", width),
        *site.plain("patch_embedding.proj", pixel_count, width, bias=True),
        *site.vector("position_embedding", part.positive("num_positions") * width),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *site.replicated("linear_proj", hidden, hidden),
        *Norm.WITH_BIAS.at(site, hidden, "norm1"),
        *site.column("merged_proj", hidden, (inner, inner)),
        *site.row("dense_4h_to_h", inner, hidden),
        *site.plain("conv", width * _CONV * _CONV, hidden, bias=True),
    )


_CONV = 2


def _normed_block(part: HfConfig) -> Block:
    width = part.positive("hidden_size")
    return Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        norm=Norm.ONE,
        gated=True,
        head_norm=width // part.positive("num_heads"),
    )


def glm_ocr(site: Site, config: HfConfig) -> Tensors:
    part = config.section("vision_config")
    return _frame(site, part, _normed_block(part)) + _rope(site, part)


def glm5_next(site: Site, config: HfConfig) -> Tensors:
    """The same with a wider merger, and a table of as many positions as the text has."""
    part, text = config.section("vision_config"), config.section("text_config")
    turned = part.positive("hidden_size") // part.positive("num_heads") // 2
    positions = text.positive("max_position_embeddings")
    return (
        *_frame(site, part, _normed_block(part), "projection_intermediate_size"),
        *site.vector("rotary_pos_emb.cos_sin_cache", positions * turned),
    )
