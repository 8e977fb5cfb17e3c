"""Qwen's vision encoders and those built after them.

Source: vLLM 0.33.0 ``models/{qwen2_vl,qwen2_5_vl,qwen3_vl,exaone4_5,
hyperclovax_vision_v2,bailing_moe_v3_vl}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    pixels,
    text_hidden,
    two_linears,
    vision_rope,
)


def patch_size(part: HfConfig) -> int:
    return pixels(part, "in_channels") * part.positive("temporal_patch_size")


def _merger(site: Site, width: int, outputs: int) -> Tensors:
    return two_linears(site, width, width, outputs)


def qwen2_encoder(site: Site, part: HfConfig) -> Tensors:
    """The encoder without its merger."""
    width = part.positive("embed_dim")
    inner = int(width * float(part.raw("mlp_ratio") or part.positive("mlp_ratio")))
    block = Block(hidden_size=width, intermediate_size=inner, one_matrix=True)
    return (
        *site.plain("patch_embed.proj", patch_size(part), width),
        *block.tensors(site, part.positive("depth")),
        *vision_rope(site, width // part.positive("num_heads")),
    )


def qwen2_vl(site: Site, config: HfConfig) -> Tensors:
    part = config.section("vision_config")
    width, merge = part.positive("embed_dim"), part.positive("spatial_merge_size")
    return (
        *qwen2_encoder(site, part),
        *Norm.WITH_BIAS.at(site, width, "merger.ln_q"),
        *_merger(site, width * merge * merge, part.positive("hidden_size")),
    )


def qwen2_5_tower(site: Site, part: HfConfig) -> Tensors:
    width, merge = part.positive("hidden_size"), part.positive("spatial_merge_size")
    heads = part.positive("num_heads")
    kv_heads = part.optional_integer("num_key_value_heads", minimum=1) or heads
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        kv_size=width // heads * kv_heads,
        norm=Norm.ONE,
        gated=True,
    )
    return (
        *site.plain("patch_embed.proj", patch_size(part), width),
        *block.tensors(site, part.positive("depth")),
        *Norm.ONE.at(site, width, "merger.ln_q"),
        *_merger(site, width * merge * merge, part.positive("out_hidden_size")),
        *vision_rope(site, width // heads),
    )


def qwen2_5_vl(site: Site, config: HfConfig) -> Tensors:
    return qwen2_5_tower(site, config.section("vision_config"))


def hyperclova(site: Site, config: HfConfig) -> Tensors:
    """Qwen2.5's encoder, and a linear to the language model's width."""
    part = config.section("vision_config")
    outputs = part.optional_integer("out_hidden_size", minimum=1) or part.positive("hidden_size")
    projector = site.plain("mm_projector", outputs, text_hidden(config), bias=True)
    return qwen2_5_tower(site, part) + projector


def _qwen3_tower(site: Site, part: HfConfig) -> Tensors:
    """The encoder up to the norm of its merger."""
    width = part.positive("hidden_size")
    block = Block(hidden_size=width, intermediate_size=part.positive("intermediate_size"))
    return (
        *site.plain("patch_embed.proj", patch_size(part), width, bias=True),
        *site.vector("pos_embed", part.positive("num_position_embeddings") * width),
        *block.tensors(site, part.positive("depth")),
        *Norm.WITH_BIAS.at(site, width, "merger.norm"),
        *vision_rope(site, width // part.positive("num_heads")),
    )


def _merged(part: HfConfig) -> int:
    return part.positive("hidden_size") * part.positive("spatial_merge_size") ** 2


def qwen3_vl(site: Site, config: HfConfig) -> Tensors:
    """Also of Qwen3.5, where no deeper layers are read."""
    part = config.section("vision_config")
    merged, outputs = _merged(part), part.positive("out_hidden_size")
    deep = len(part.optional_list("deepstack_visual_indexes") or ())
    deep_merger = Norm.WITH_BIAS.at(site, merged) + _merger(site, merged, outputs)
    return (*_qwen3_tower(site, part), *_merger(site, merged, outputs), *deep_merger * deep)


def bailing(site: Site, config: HfConfig) -> Tensors:
    """No deeper layers, and a projector of its own in place of the merger's linears."""
    part, hidden = config.section("vision_config"), text_hidden(config)
    return (*_qwen3_tower(site, part), *two_linears(site, _merged(part), hidden, hidden))
