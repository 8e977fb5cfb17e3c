"""Conformers and their kin: audio encoders of attention, convolutions and two feed-forwards.

None is shared out over the ranks but where a row says so.

Source: vLLM 0.33.0 ``models/{conformer_encoder,fireredasr2,cohere_asr,funasr}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.encoder import Block, text_hidden, two_linears


def subsampling(
    site: Site, *, kernel: int, channels: int, layers: int, bands: int, width: int
) -> Tensors:
    """Convolutions over time and bands, the later ones taken apart by channels, and a linear.

    kernel: numbers under one window. bands: left of the spectrum by ``layers`` of them.
    """
    apart = site.plain("depthwise", kernel, channels, bias=True)
    apart += site.plain("pointwise", channels, channels, bias=True)
    return (
        *site.plain("layers.0", kernel, channels, bias=True),
        *apart * (layers - 1),
        *site.plain("linear", channels * bands, width, bias=True),
    )


_SQUARE = 3 * 3
_FIRE_CHANNELS = 32
_FIRE_KERNEL = 33
_FIRE_POSITIONS = 5000


def _fire_layer(site: Site, width: int, kernel: int) -> Tensors:
    """Attention by distance, whose projections have no bias, and convolutions twice as wide."""
    norm, wide = Norm.WITH_BIAS.at(site, width), 2 * width
    feed_forward = (
        *norm,
        *site.plain("linear_expand", width, 4 * width, bias=True),
        *site.plain("linear_project", 4 * width, width, bias=True),
    )
    return (
        *feed_forward * 2,
        *norm * 3,
        *site.plain("mhsa.proj", width, width) * 5,
        *site.vector("mhsa.pos_bias", width) * 2,
        *norm,
        *site.plain("conv.pointwise_conv1", width, 2 * wide),
        *site.plain("conv.depthwise_conv", kernel, wide),
        *Norm.WITH_BIAS.at(site, wide, "conv.batch_norm"),
        *site.plain("conv.pointwise_conv2", wide, width),
        *norm,
    )


def fire_red(site: Site, config: HfConfig) -> Tensors:
    """FireRedASR 2's conformer, and two linears over frames put together."""
    part, hidden = config.section("audio_encoder_conf"), text_hidden(config)
    width, layers = part.positive("d_model"), part.positive("n_layers_enc")
    kernel = part.optional_integer("kernel_size", minimum=1) or _FIRE_KERNEL
    positions = part.optional_integer("pe_maxlen", minimum=1) or _FIRE_POSITIONS
    bands = ((part.positive("idim") - 1) // 2 - 1) // 2
    merged = width * config.positive("encoder_downsample_rate")
    return (
        *site.plain("conv.0", _SQUARE, _FIRE_CHANNELS, bias=True),
        *site.plain("conv.2", _FIRE_CHANNELS * _SQUARE, _FIRE_CHANNELS, bias=True),
        *site.plain("out", _FIRE_CHANNELS * bands, width, bias=True),
        *site.vector("positional_encoding.pe", (2 * positions - 1) * width),
        *_fire_layer(site, width, kernel) * layers,
        *site.plain("linear1", merged, hidden, bias=True),
        *site.plain("linear2", hidden, hidden, bias=True),
    )


# What the engine hands its encoder, and the adaptor, whatever the config says.
_FRAMES, _SEEN, _ADAPTED, _INNER, _ADAPTOR_LAYERS = 560, 512, 1024, 2048, 2
# Of an absent key. Source: vLLM 0.33.0 ``models/funasr.py:SenseVoiceEncoderSmall``.
_SENSE_WIDTH, _SENSE_INNER, _SENSE_LAYERS, _SENSE_KERNEL = 256, 2048, 6, 11


def _sense_layer(site: Site, part: HfConfig, width: int, seen: int) -> Tensors:
    """Attention that every rank holds whole, with a memory of frames; a feed-forward shared out."""
    inner = part.optional_integer("linear_units", minimum=1) or _SENSE_INNER
    kernel = part.optional_integer("kernel_size", minimum=1) or _SENSE_KERNEL
    return (
        *Norm.WITH_BIAS.at(site, seen, "norm1"),
        *site.replicated("linear_q_k_v", seen, 3 * width, bias=True),
        *site.replicated("out_proj", width, width, bias=True),
        *site.vector("fsmn_block", width * kernel),
        *Norm.WITH_BIAS.at(site, width, "norm2"),
        *two_linears(site, width, inner, width),
    )


def fun_asr(site: Site, config: HfConfig) -> Tensors:
    """SenseVoice's encoder, and an adaptor of two linears and two layers."""
    part = config.section("audio_encoder_conf")
    width = part.optional_integer("output_size", minimum=1) or _SENSE_WIDTH
    layers = part.optional_integer("num_blocks", minimum=1) or _SENSE_LAYERS
    later = part.optional_integer("tp_blocks", minimum=0) or 0
    adaptor = Block(hidden_size=_ADAPTED, intermediate_size=_ADAPTED // 4)
    return (
        *_sense_layer(site, part, width, _FRAMES),
        *_sense_layer(site, part, width, width) * (layers - 1 + later),
        *Norm.WITH_BIAS.at(site, width, "after_norm"),
        *Norm.WITH_BIAS.at(site, width, "tp_norm"),
        *two_linears(site, _SEEN, _INNER, _ADAPTED),
        *adaptor.tensors(site, _ADAPTOR_LAYERS),
    )
