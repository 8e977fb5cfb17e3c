"""Janus by the Transformers library's class: an encoder that reads images, and all of the modules
that draw them, which the engine keeps without using them.

Source: transformers 5.20.2 ``models/janus/modeling_janus.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.library_tables import library_table
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.memory.weights.towers.clip_like import vision
from kvplan_cli.memory.weights.towers.encoder import Block, patches, pixels
from kvplan_cli.memory.weights.towers.library import sharing_attention

_KERNEL: Final = 9


def janus(site: Site, config: HfConfig) -> Tensors:
    """What reads images and what draws them."""
    part = config.section("vq_config")
    codes, width = part.positive("num_embeddings"), part.positive("embed_dim")
    tables = library_table(site, config, "embedding", codes, width) * 2
    return _reads(site, config) + _draws(site, part) + tables


def _reads(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    width, count = part.positive("hidden_size"), patches(part)
    ratio = part.optional_number("mlp_ratio") or part.positive("mlp_ratio")
    block = Block(
        hidden_size=width,
        intermediate_size=int(width * ratio),
        qkv_bias=part.optional_boolean("attention_bias") is not False,
    )
    layers = part.positive("num_hidden_layers")
    norms = 4 * layers if part.optional_boolean("use_qk_norm") is True else 0
    shared = sharing_attention(lambda place, _: block.tensors(place, layers))
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", count * width),
        *site.vector("position_ids", count, INT64),
        *shared(site, config),
        *site.vector("qk_norm", width) * norms,
        *Norm.WITH_BIAS.at(site, width, "post_layernorm"),
        *_aligner(site, width, part.positive("projection_dim"), part.positive("depth")),
    )


def _aligner(site: Site, inputs: int, width: int, depth: int) -> Tensors:
    square = site.replicated("hidden_layers", width, width, bias=True)
    return site.replicated("fc1", inputs, width, bias=True) + square * (depth - 1)


def _draws(site: Site, part: HfConfig) -> Tensors:
    """An autoencoder over a table of codes, and what leads from the language model to codes."""
    codes, width = part.positive("num_embeddings"), part.positive("embed_dim")
    latent, hidden = part.positive("latent_channels"), part.positive("projection_dim")
    return (
        *_encoder(site, part),
        *_decoder(site, part),
        *site.plain("quant_conv", latent, width, bias=True),
        *site.plain("post_quant_conv", width, latent, bias=True),
        *_aligner(site, width, hidden, part.positive("num_hidden_layers")),
        *site.replicated("proj_out", part.positive("image_token_embed_dim"), hidden, bias=True),
        *site.replicated("vision_head", hidden, codes, bias=True),
    )


def _levels(part: HfConfig) -> Sequence[int]:
    """Channels of each level, from the finest to the coarsest."""
    base = part.positive("base_channels")
    return [base * int(factor) for factor in part.list("channel_multiplier")]


def _encoder(site: Site, part: HfConfig) -> Tensors:
    levels, latent = _levels(part), part.positive("latent_channels")
    outputs = 2 * latent if part.optional_boolean("double_latent") is True else latent
    blocks = part.positive("num_res_blocks")
    tensors = _convolution(site, part.positive("in_channels"), part.positive("base_channels"))
    width = part.positive("base_channels")
    for level in levels:
        tensors += _level(site, width, level, blocks, attends=level is levels[-1])
        width = level
    down = tuple(t for level in levels[:-1] for t in _convolution(site, level, level))
    return tensors + down + _middle(site, width) + _end(site, width, outputs)


def _decoder(site: Site, part: HfConfig) -> Tensors:
    levels, width = _levels(part), _levels(part)[-1]
    blocks = part.positive("num_res_blocks") + 1
    tensors = _convolution(site, part.positive("latent_channels"), width) + _middle(site, width)
    for level in reversed(levels):
        tensors += _level(site, width, level, blocks, attends=level is levels[-1])
        width = level
    up = tuple(t for level in levels[1:] for t in _convolution(site, level, level))
    return tensors + up + _end(site, width, part.positive("out_channels"))


def _level(site: Site, width: int, outputs: int, blocks: int, *, attends: bool) -> Tensors:
    """Residual blocks, the first of which changes the width; the coarsest level attends."""
    rest = _residual(site, outputs, outputs) * (blocks - 1)
    attention = _attention(site, outputs) * (blocks if attends else 0)
    return _residual(site, width, outputs) + rest + attention


def _residual(site: Site, inputs: int, outputs: int) -> Tensors:
    shortcut = site.plain("nin_shortcut", inputs, outputs, bias=True) if inputs != outputs else ()
    return (
        *Norm.WITH_BIAS.at(site, inputs, "norm1"),
        *_convolution(site, inputs, outputs),
        *Norm.WITH_BIAS.at(site, outputs, "norm2"),
        *_convolution(site, outputs, outputs),
        *shortcut,
    )


def _attention(site: Site, width: int) -> Tensors:
    square = site.plain("conv", width, width, bias=True)
    return Norm.WITH_BIAS.at(site, width) + square * 4


def _middle(site: Site, width: int) -> Tensors:
    return _residual(site, width, width) * 2 + _attention(site, width)


def _end(site: Site, width: int, outputs: int) -> Tensors:
    return Norm.WITH_BIAS.at(site, width, "norm_out") + _convolution(site, width, outputs)


def _convolution(site: Site, inputs: int, outputs: int) -> Tensors:
    return site.plain("conv", inputs * _KERNEL, outputs, bias=True)
