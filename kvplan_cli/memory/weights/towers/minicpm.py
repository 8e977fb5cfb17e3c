"""MiniCPM-V's vision encoders.

Source: vLLM 0.33.0 ``models/{minicpmv4_6,minicpmv4_7}.py``.
"""

from __future__ import annotations

from math import prod

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.clip_like import siglip, vision
from kvplan_cli.memory.weights.towers.encoder import text_hidden


def _two(site: Site, width: int, inner: int, outputs: int) -> Tensors:
    return (
        *Norm.WITH_BIAS.at(site, width, "pre_norm"),
        *site.plain("linear_1", width, inner, bias=True),
        *site.plain("linear_2", inner, outputs, bias=True),
    )


def window(site: Site, config: HfConfig) -> Tensors:
    """SigLIP, attention within windows that merges each to one patch, then a projector."""
    part = vision(config)
    width, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    merged = width * prod(int(size) for size in part.list("window_kernel_size"))
    # The projector merges as many patches again.
    return (
        *siglip(site, part, position_ids=False),
        *site.column("qkv_proj", width, (width, width, width), bias=True),
        *site.row("out_proj", width, width, bias=True),
        *Norm.WITH_BIAS.at(site, width, "layer_norm1"),
        *_two(site, merged, inner * (merged // width), width),
        *_two(site, merged, merged, text_hidden(config)),
    )
