"""Gemma 3n's encoders: timm's MobileNet V5 for images, the library's conformer for sound.

Every rank holds them whole; only what brings them to the language model's width is shared out.

Source: vLLM 0.33.0 ``models/gemma3n_mm.py``, transformers 5.20.2 ``models/gemma3n``,
timm 1.0.31 ``models/mobilenetv5.py``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import BYTE, FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.encoder import text_hidden


class _Inverted(NamedTuple):
    """A bottleneck turned outward. start, middle: sides of its convolutions, 0 for none."""

    start: int
    middle: int
    expansion: int


class _Attention(NamedTuple):
    """Attention with one head of keys. down: the side of its window, 0 for none."""

    heads: int
    size: int
    down: int


_MOBILENET: Final = "mobilenetv5_300m_enc"
_COLOURS, _STEM, _EDGE, _EDGE_EXPANSION, _SQUARE = 3, 64, 128, 4, 3 * 3
_EDGES: Final = ((_STEM, _EDGE), (_EDGE, _EDGE), (_EDGE, _EDGE))
_SHUTTLE: Final = (_Inverted(5, 0, 4), _Inverted(3, 0, 4)) * 2
_PLAIN: Final = _Inverted(0, 0, 2)
# The width of each stage and its blocks; only the last two have attention.
_STAGES: Final[tuple[tuple[int, tuple[_Inverted | _Attention, ...]], ...]] = (
    (256, (_Inverted(3, 5, 6), *_SHUTTLE)),
    (
        640,
        (
            _Inverted(5, 5, 6),
            *(_Inverted(5, 0, 4),) * 7,
            _Inverted(0, 0, 1),
            *(_Attention(12, 64, 3), _PLAIN) * 14,
        ),
    ),
    (1280, (_Inverted(5, 5, 6), *(_Attention(16, 96, 0), _PLAIN) * 19)),
)
_FUSED, _FUSED_EXPANSION, _OUT = 640 + 1280, 2, 2048


def _normed(site: Site, inputs: int, outputs: int) -> Tensors:
    """A convolution without a bias, and its norm."""
    return site.plain("conv", inputs, outputs) + site.vector("bn", outputs)


def _edge(site: Site, width: int, outputs: int) -> Tensors:
    middle = width * _EDGE_EXPANSION
    return _normed(site, width * _SQUARE, middle) + _normed(site, middle, outputs)


def _inverted(site: Site, block: _Inverted, width: int, outputs: int) -> Tensors:
    middle = width * block.expansion
    return (
        *(_normed(site, block.start**2, width) if block.start else ()),
        *_normed(site, width, middle),
        *(_normed(site, block.middle**2, middle) if block.middle else ()),
        *_normed(site, middle, outputs),
        *site.vector("layer_scale.gamma", outputs),
    )


def _attention(site: Site, block: _Attention, width: int) -> Tensors:
    wide = block.heads * block.size
    down = _normed(site, block.down**2, width) if block.down else ()
    return (
        *site.vector("norm", width),
        *site.plain("attn.query", width, wide),
        *(down + site.plain("attn.key_value", width, block.size)) * 2,
        *site.plain("attn.output", wide, width),
        *site.vector("layer_scale.gamma", width),
    )


def _mobilenet(site: Site) -> Tensors:
    tensors = site.plain("conv_stem", _COLOURS * _SQUARE, _STEM, bias=True)
    tensors += site.vector("conv_stem.bn", _STEM)
    for inputs, outputs in _EDGES:
        tensors += _edge(site, inputs, outputs)
    before = _EDGE
    for width, blocks in _STAGES:
        for block in blocks:
            if isinstance(block, _Attention):
                tensors += _attention(site, block, width)
            else:
                tensors += _inverted(site, block, before, width)
            before = width
    fused = _inverted(site, _Inverted(0, 0, _FUSED_EXPANSION), _FUSED, _OUT)
    return tensors + fused


def _embedder(site: Site, part: HfConfig, hidden: int) -> Tensors:
    """Words of the modality, two norms, and the linear to the language model's width."""
    width = part.positive("hidden_size")
    return (
        *site.embedding("embedding", part.positive("vocab_size"), width),
        *Norm.ONE.at(site, width) * 2,
        *site.row("embedding_projection", width, hidden),
    )


def images(site: Site, config: HfConfig) -> Tensors:
    part = config.section("vision_config")
    name = part.text("architecture")
    if name != _MOBILENET:
        raise unknown(f"vision encoder {name!r} is not described", part.where("architecture"))
    return _mobilenet(site) + _embedder(site, part, text_hidden(config))


def _subsampling(site: Site, part: HfConfig) -> Tensors:
    """Two convolutions over time and bands, each with a norm, and a linear."""
    bands, before = part.positive("input_feat_size"), 1
    tensors: Tensors = ()
    keys = ("sscp_conv_channel_size", "sscp_conv_kernel_size", "sscp_conv_stride_size")
    for channels, (height, side), (_, stride) in zip(*map(part.list, keys), strict=True):
        tensors += _normed(site, before * height * side, channels)
        bands, before = (bands + 2 - side) // stride + 1, channels
    return tensors + site.plain("input_proj_linear", before * bands, part.positive("hidden_size"))


def _conformer_layer(site: Site, part: HfConfig) -> Tensors:
    """Half a feed-forward, attention within a window, a convolution, another half."""
    width = part.positive("hidden_size")
    chunk = part.positive("conf_attention_chunk_size")
    seen = chunk + max(0, part.integer("conf_attention_context_left") - 1)
    seen += part.integer("conf_attention_context_right")
    half = site.plain("ffw_layer_1", width, 4 * width) + site.plain("ffw_layer_2", 4 * width, width)
    return (
        *half * 2,
        *site.plain("attention.proj", width, width) * 5,
        *site.vector("per_dim_scale", width // part.positive("conf_num_attention_heads")),
        *site.plain("lconv1d.linear_start", width, 2 * width),
        *site.plain("lconv1d.depthwise_conv1d", part.positive("conf_conv_kernel_size"), width),
        *site.plain("lconv1d.linear_end", width, width),
        *Norm.ONE.at(site, width) * 9,
        *site.vector("gradient_clipping", 1) * 5,
        *site.vector("q_scale", 1),
        *site.vector("softcap", 1, FLOAT32),
        *site.vector("local_causal_valid_mask", chunk * seen, BYTE),
        *site.vector("inv_timescales", width // 2, FLOAT32),
    )


def sound(site: Site, config: HfConfig) -> Tensors:
    part = config.section("audio_config")
    return (
        *_subsampling(site, part),
        *_conformer_layer(site, part) * part.positive("conf_num_hidden_layers"),
        *_embedder(site, part, text_hidden(config)),
    )
