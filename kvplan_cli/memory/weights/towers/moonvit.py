"""Moonshot's vision encoder, in Kimi K2.5 and K3.

Source: vLLM 0.33.0 ``models/kimi_k25_vit.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.encoder import Block, text_hidden
from kvplan_cli.models.text import text_config

_COLOURS = 3


def _flag(part: HfConfig, key: str) -> bool:
    return part.optional_boolean(key) is not False


def _norm(part: HfConfig) -> Norm:
    return Norm.ONE if part.optional_text("norm_type") == "rmsnorm" else Norm.WITH_BIAS


def _blocks(site: Site, part: HfConfig) -> Tensors:
    """Attention is whole where the ranks do not divide its heads."""
    width, inner = part.positive("vt_hidden_size"), part.positive("vt_intermediate_size")
    heads = part.positive("vt_num_attention_heads")
    wide = part.optional_integer("qkv_hidden_size", minimum=1) or width
    whole = heads % site.tensor_parallel_size != 0
    place = site.replicated_site() if whole else site
    bias, linear = _flag(part, "attn_bias"), _flag(part, "linear_bias")
    block = (
        *_norm(part).at(site, width) * 2,
        *place.column("wqkv", width, (wide, wide, wide), bias=bias),
        *place.row("wo", wide, width, bias=bias),
        *place.column("fc0", width, inner, bias=linear),
        *place.row("fc1", inner, width, bias=linear),
    )
    return block * part.positive("vt_num_hidden_layers")


def _projector(site: Site, part: HfConfig, hidden: int) -> Tensors:
    merge: Sequence[int] = part.list("merge_kernel_size")
    width = part.positive("mm_hidden_size")
    wide = width * prod(int(size) for size in merge)
    newer = part.optional_text("mm_projector_type") == "patchmergerv2"
    norm = Norm.ONE.at(site, hidden) if newer else Norm.WITH_BIAS.at(site, width)
    return (
        *norm,
        *site.plain("linear_1", wide, wide, bias=not newer),
        *site.plain("linear_2", wide, hidden, bias=not newer),
    )


def _keeps_fp32(config: HfConfig, part: HfConfig) -> bool:
    """K2.5 casts its encoder to the model dtype unless ModelOpt quantized the checkpoint."""
    if part.optional_text("mm_projector_type") == "patchmergerv2":
        return True
    sections = (
        each.optional_section("quantization_config") for each in (config, text_config(config))
    )
    return any(each and each.optional_text("quant_method") == "modelopt" for each in sections)


def kimi(site: Site, config: HfConfig) -> Tensors:
    part = config.section("vision_config")
    width, pixels = part.positive("vt_hidden_size"), part.positive("patch_size") ** 2 * _COLOURS
    positions = part.positive("init_pos_emb_height") * part.positive("init_pos_emb_width")
    bias = _flag(part, "patch_embed_proj_bias")
    times = part.positive("init_pos_emb_time")
    itemsize = FLOAT32 if _keeps_fp32(config, part) else site.itemsize
    return (
        *site.plain("patch_embed.proj", pixels, width, bias=bias),
        *site.vector("pos_emb.weight", positions * width),
        *site.vector("pos_emb.time_weight", times * width, itemsize),
        *_blocks(site, part),
        *_norm(part).at(site, width, "final_layernorm"),
        *_projector(site, part, text_hidden(config)),
    )


def kimi_vl(site: Site, config: HfConfig) -> Tensors:
    """The first generation: SigLIP's names, and attention shared out."""
    part = config.section("vision_config")
    width, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    positions = part.positive("init_pos_emb_height") * part.positive("init_pos_emb_width")
    merged = width * prod(int(size) for size in part.list("merge_kernel_size"))
    return (
        *site.plain(
            "patch_embed.proj", part.positive("patch_size") ** 2 * _COLOURS, width, bias=True
        ),
        *site.vector("pos_emb.weight", positions * width),
        *Block(hidden_size=width, intermediate_size=inner).tensors(
            site, part.positive("num_hidden_layers")
        ),
        *Norm.WITH_BIAS.at(site, width, "final_layernorm"),
        *Norm.WITH_BIAS.at(site, width, "pre_norm"),
        *site.plain("linear_1", merged, merged, bias=True),
        *site.plain("linear_2", merged, text_hidden(config), bias=True),
    )
