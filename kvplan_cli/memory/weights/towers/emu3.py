"""Emu3's images as words: an autoencoder over a codebook, both halves of which are built.

Source: transformers 5.20.2 ``models/emu3/modeling_emu3.py:Emu3VQVAE``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors

_PLANE: Final = 3 * 3
_CUBE: Final = 3 * 3 * 3
_SHRINKING_CUBE: Final = 4 * 3 * 3
_LINE: Final = 3

NormAt = Callable[[Site, int], Tensors]


def _plain_norm(site: Site, width: int) -> Tensors:
    return Norm.WITH_BIAS.at(site, width)


def _norm_by_words(words: int) -> NormAt:
    """A norm that what was read from the codebook scales and shifts."""

    def norm(site: Site, width: int) -> Tensors:
        return _plain_norm(site, width) + site.plain("conv", words, width, bias=True) * 2

    return norm


def _block(site: Site, inputs: int, outputs: int, norm: NormAt) -> Tensors:
    shortcut = site.plain("nin_shortcut", inputs, outputs, bias=True) if inputs != outputs else ()
    return (
        *norm(site, inputs),
        *norm(site, outputs),
        *site.plain("conv1", _PLANE * inputs, outputs, bias=True),
        *site.plain("conv2", _PLANE * outputs, outputs, bias=True),
        *shortcut,
    )


def _attention(site: Site, part: HfConfig) -> Tensors:
    width = part.positive("hidden_size")
    return (
        *site.column("qkv_proj", width, (width, width, width), bias=True),
        *site.row("out_proj", width, width, bias=True),
    )


def _middle(site: Site, part: HfConfig, width: int, norm: NormAt) -> Tensors:
    both = _block(site, width, width, norm) * 2
    return both + _attention(site, part) + norm(site, width)


def _over_time(site: Site, width: int, depth: int) -> Tensors:
    """Blocks of two convolutions whose norms keep what they saw in training."""
    norm = (
        *site.vector("norm", width) * 4,
        *site.vector("norm.num_batches_tracked", 1, INT64),
    )
    return (norm + site.plain("conv", _CUBE * width, width, bias=True)) * (2 * depth)


def _widths(part: HfConfig) -> tuple[int, ...]:
    """Channels of each level, the finest first."""
    base = part.positive("base_channels")
    return tuple(base * int(factor) for factor in part.list("channel_multiplier"))


def _levels(
    site: Site, part: HfConfig, inputs: int, order: Sequence[int], blocks: int, norm: NormAt
) -> Tensors:
    """The levels in ``order``, and a convolution from each to the next."""
    widths, attends = _widths(part), part.list("attn_resolutions")
    groups: list[Tensors] = []
    for level in order:
        width = widths[level]
        for _ in range(blocks):
            groups.append(_block(site, inputs, width, norm))
            inputs = width
        if level in attends:
            groups.append((_attention(site, part) + norm(site, width)) * blocks)
        if level != order[-1]:
            groups.append(site.plain("conv", _PLANE * width, width, bias=True))
    return tuple(tensor for group in groups for tensor in group)


def _encoder(site: Site, part: HfConfig) -> Tensors:
    widths, depth = _widths(part), part.positive("num_res_blocks")
    base, deepest = part.positive("base_channels"), widths[-1]
    doubled = 2 if part.optional_boolean("double_latent") else 1
    latent, halvings = doubled * part.positive("latent_channels"), _halvings(part)
    shrinking = site.plain("time_conv", _SHRINKING_CUBE * latent, latent, bias=True)
    return (
        *site.plain("conv_in", _PLANE * part.positive("in_channels"), base, bias=True),
        *_levels(site, part, base, range(len(widths)), depth, _plain_norm),
        *_middle(site, part, deepest, _plain_norm),
        *_plain_norm(site, deepest),
        *site.plain("conv_out", _PLANE * deepest, latent, bias=True),
        *shrinking * halvings,
        *_over_time(site, latent, depth),
    )


def _decoder(site: Site, part: HfConfig) -> Tensors:
    widths, depth = _widths(part), part.positive("num_res_blocks")
    latent, norm = part.positive("latent_channels"), _norm_by_words(part.positive("embed_dim"))
    growing = site.plain("time_conv", _CUBE * latent, latent, bias=True)
    order = range(len(widths) - 1, -1, -1)
    return (
        *_over_time(site, latent, depth),
        *growing * _halvings(part),
        *site.plain("conv_in", _PLANE * latent, widths[-1], bias=True),
        *_middle(site, part, widths[-1], norm),
        *_levels(site, part, widths[-1], order, depth + 1, norm),
        *norm(site, widths[0]),
        *site.plain("conv_out", _PLANE * widths[0], part.positive("out_channels"), bias=True),
    )


def _halvings(part: HfConfig) -> int:
    """Times that the frames are halved."""
    return part.positive("temporal_downsample_factor").bit_length() - 1


def emu3(site: Site, config: HfConfig) -> Tensors:
    """The ranks share only its attention."""
    part = config.section("vq_config")
    latent, words = part.positive("latent_channels"), part.positive("embed_dim")
    return (
        *_encoder(site, part),
        *_decoder(site, part),
        *site.vector("quantize.embedding", part.positive("codebook_size") * words),
        *site.plain("quant_conv", _LINE * latent, words, bias=True),
        *site.plain("post_quant_conv", _LINE * words, latent, bias=True),
    )
