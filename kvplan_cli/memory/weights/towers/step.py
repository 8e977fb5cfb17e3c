"""Step's vision encoders: a plain one, and a perception encoder with rotations of its own.

Source: vLLM 0.33.0 ``models/{step3_vl,step_vl,step3p7}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, INT64, Tensors
from kvplan_cli.memory.weights.towers.clip_like import vision
from kvplan_cli.memory.weights.towers.encoder import Block, patches, pixels, text_hidden

_FIRST_KERNEL = 2 * 2
_KERNEL = 3 * 3


def _projects_with_bias(config: HfConfig) -> bool:
    return config.optional_boolean("projector_bias") is True


def step3(site: Site, config: HfConfig) -> Tensors:
    """An encoder without a last norm, two convolutions and a linear."""
    part = vision(config)
    width, wide = part.positive("hidden_size"), part.positive("output_hidden_size")
    positions = patches(part) + 1
    block = Block(hidden_size=width, intermediate_size=part.positive("intermediate_size"))
    return (
        *site.vector("class_embedding", width),
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", positions * width),
        *site.vector("position_ids", positions, INT64),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *site.plain("vit_downsampler", _FIRST_KERNEL * width, wide, bias=True),
        *site.plain("vit_downsampler2", _KERNEL * wide, 2 * wide, bias=True),
        *site.plain(
            "vit_large_projector", 2 * wide, text_hidden(config), bias=_projects_with_bias(config)
        ),
    )


def perception(site: Site, config: HfConfig) -> Tensors:
    """Each layer has a table of rotations of its own; the projector is shared out."""
    part = vision(config)
    width, count = part.positive("width"), patches(part)
    marked = 1 if part.boolean("use_cls_token") else 0
    norms = [part.boolean("use_ln_pre"), part.boolean("use_ln_post")].count(True)
    positions = count + marked if part.boolean("use_abs_posemb") else 0
    return (
        *site.plain("conv1", pixels(part), width),
        *Norm.WITH_BIAS.at(site, width) * norms,
        *_perception_layer(site, part, count + marked) * part.positive("layers"),
        *site.plain("vit_downsampler1", _KERNEL * width, 2 * width, bias=True),
        *site.plain("vit_downsampler2", _KERNEL * 2 * width, 4 * width, bias=True),
        *site.vector("class_embedding", marked * width),
        *site.vector("positional_embedding", positions * width),
        *site.column(
            "vit_large_projector", 4 * width, text_hidden(config), bias=_projects_with_bias(config)
        ),
    )


def _perception_layer(site: Site, part: HfConfig, positions: int) -> Tensors:
    width = part.positive("width")
    ratio, scale = part.optional_number("mlp_ratio"), part.optional_number("ls_init_value")
    if not ratio:
        raise part.wrong("mlp_ratio", "a number above zero")
    block = Block(hidden_size=width, intermediate_size=int(width * ratio))
    head_size = width // part.positive("heads")
    return (
        *block.tensors(site, 1),
        *(site.vector("ls", width) * 2 if scale is not None else ()),
        *site.vector("rope.freqs_cache", positions * head_size, FLOAT32),
    )
