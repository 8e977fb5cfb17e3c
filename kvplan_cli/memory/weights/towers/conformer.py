"""Conformers and their kin: audio encoders of attention, convolutions and two feed-forwards.

None is shared out over the ranks but where a row says so.

Source: vLLM 0.33.0 ``models/{conformer_encoder,fireredasr2,cohere_asr,funasr}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors
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


def halved(bands: int, times: int) -> int:
    """Bands that windows of three, two apart and padded by one, leave of a spectrum."""
    for _ in range(times):
        bands = (bands + 1) // 2
    return bands


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


_UNTIED = "untie_biases"


def _nemo_layer(site: Site, part: HfConfig) -> Tensors:
    """Two feed-forwards around attention by distance and a convolution with a batch norm."""
    width, bias = part.positive("d_model"), part.optional_boolean("use_bias") is not False
    inner = width * part.positive("ff_expansion_factor")
    feed_forward = (
        *site.plain("linear1", width, inner, bias=bias),
        *site.plain("linear2", inner, width, bias=bias),
    )
    return (
        *feed_forward * 2,
        *site.plain("self_attn.linear", width, width, bias=bias) * 4,
        *site.plain("self_attn.linear_pos", width, width),
        *(site.vector("self_attn.pos_bias", width) * 2 if part.boolean(_UNTIED) else ()),
        *site.plain("conv.pointwise_conv1", width, 2 * width, bias=bias),
        *site.plain("conv.depthwise_conv", part.positive("conv_kernel_size"), width, bias=bias),
        *site.vector("conv.batch_norm", width) * 4,
        *site.vector("conv.batch_norm.num_batches_tracked", 1, INT64),
        *site.plain("conv.pointwise_conv2", width, width, bias=bias),
        *Norm.WITH_BIAS.at(site, width) * 5,
    )


def cohere_asr(site: Site, config: HfConfig) -> Tensors:
    """NeMo's conformer, and a linear where the decoder is of another width."""
    part = config.section("encoder")
    width, layers = part.positive("d_model"), part.positive("n_layers")
    halvings = part.positive("subsampling_factor").bit_length() - 1
    channels = part.integer("subsampling_conv_channels", minimum=-1)
    hidden = config.section("transf_decoder").section("config_dict").positive("hidden_size")
    outputs = part.optional_integer("feat_out") or 0
    last = site.plain("out_proj", width, outputs, bias=True) if 0 < outputs != width else ()
    wider = width != hidden
    return (
        *subsampling(
            site,
            kernel=_SQUARE,
            channels=width if channels == -1 else channels,
            layers=halvings,
            bands=halved(part.positive("feat_in"), halvings),
            width=width,
        ),
        *site.vector("pos_enc.pe", (2 * part.positive("pos_emb_max_len") - 1) * width),
        *(() if part.boolean(_UNTIED) else site.vector("pos_bias", width) * 2),
        *_nemo_layer(site, part) * layers,
        *last,
        *(site.plain("encoder_decoder_proj", width, hidden, bias=True) if wider else ()),
    )
