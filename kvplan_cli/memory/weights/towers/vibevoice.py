"""VibeVoice's two tokenizers of sound, as the Transformers library's classes build them.

Every rank holds them whole.

Source: transformers 5.20.2 ``models/{vibevoice_asr,vibevoice_acoustic_tokenizer}``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.encoder import text_hidden

_TOKENIZERS = ("acoustic_tokenizer_encoder_config", "semantic_tokenizer_encoder_config")


def _block(site: Site, part: HfConfig, width: int) -> Tensors:
    """A convolution of each channel by itself and a feed-forward, each normed and scaled."""
    kernel, inner = part.positive("kernel_size"), part.positive("ffn_expansion") * width
    return (
        *Norm.ONE.at(site, width) * 2,
        *site.vector("gamma", width) * 2,
        *site.plain("mixer", kernel, width, bias=True),
        *site.plain("linear1", width, inner, bias=True),
        *site.plain("linear2", inner, width, bias=True),
    )


def _tokenizer(site: Site, part: HfConfig) -> Tensors:
    """Stages of blocks; before each but the first, a convolution that doubles the width."""
    kernel, width = part.positive("kernel_size"), part.positive("num_filters")
    depths = [int(depth) for depth in part.list("depths")]
    ratios = [int(ratio) for ratio in part.list("downsampling_ratios")]
    tensors = site.plain("stem", part.positive("channels") * kernel, width, bias=True)
    tensors += _block(site, part, width) * depths[0]
    for ratio, depth in zip(ratios, depths[1:], strict=True):
        tensors += site.plain("conv", 2 * ratio * width, 2 * width, bias=True)
        width *= 2
        tensors += _block(site, part, width) * depth
    return tensors + site.plain("head", kernel * width, part.positive("hidden_size"), bias=True)


def vibevoice(site: Site, config: HfConfig) -> Tensors:
    """Both tokenizers, and a projector of each: two linears with a norm between them."""
    hidden = text_hidden(config)
    tensors: Tensors = ()
    for key in _TOKENIZERS:
        part = config.section(key)
        tensors += _tokenizer(site, part)
        tensors += site.plain("linear_1", part.positive("hidden_size"), hidden, bias=True)
        tensors += Norm.ONE.at(site, hidden)
        tensors += site.plain("linear_2", hidden, hidden, bias=True)
    return tensors
