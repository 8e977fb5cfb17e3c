"""DeepSeek's vision encoder of V4, whose sizes stand beside the language model's.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v4/common/vl_model.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors

_COLOURS = 3
_MARKS = 4


def v4(site: Site, config: HfConfig) -> Tensors:
    """Gated blocks without biases in the feed-forward."""
    width, inner = config.positive("vision_dim"), config.positive("vision_inter_dim")
    hidden, ratio = config.positive("hidden_size"), config.positive("vision_downsample_ratio")
    pixels = config.positive("vision_patch_size") ** 2 * _COLOURS
    block = (
        *Norm.ONE.at(site, width) * 2,
        *site.column("attn.wqkv", width, (width, width, width), bias=True),
        *site.row("attn.wo", width, width, bias=True),
        *site.column("mlp.w1", width, (inner, inner)),
        *site.row("mlp.w2", inner, width),
    )
    return (
        *site.plain("patch_embed.proj", pixels, width, bias=True),
        *block * config.positive("vision_n_layers"),
        *Norm.ONE.at(site, width, "norm"),
        *site.column("aligner.w1", width * ratio * ratio, hidden, bias=True),
        *site.row("aligner.w2", hidden, hidden, bias=True),
    )


def image_marks(site: Site, config: HfConfig) -> Tensors:
    """Rows that stand around an image: of no module, so every stage has them."""
    return site.vector("image_mark", config.positive("hidden_size"), FLOAT32) * _MARKS
