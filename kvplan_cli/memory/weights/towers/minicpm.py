"""MiniCPM-V's vision encoders.

Source: vLLM 0.33.0 ``models/{minicpmv,minicpmo,minicpmv4_6,minicpmv4_7}.py``.
"""

from __future__ import annotations

from math import prod

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.audio import whisper
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


# Sizes of the resampler's fixed positions. Source: vLLM 0.33.0 ``models/minicpmv.py``.
_SIDE = 70
_TIMES = 36000
_TEMPORAL = "4.5"


def resampled(site: Site, config: HfConfig) -> Tensors:
    """MiniCPM-V up to 4.5: SigLIP, and queries that gather what it saw."""
    part, hidden = vision(config), config.positive("hidden_size")
    width, version = part.positive("hidden_size"), config.raw("version")
    if version is not None and str(version) == "2.0":
        raise unknown("the encoder of MiniCPM-V 2.0 is not described", config.where("version"))
    layers = part.positive("num_hidden_layers")
    dropped = config.optional_boolean("drop_vision_last_layer") is True
    encoder = siglip(site, part.with_value("num_hidden_layers", layers - dropped))
    temporal = _TIMES if str(version) == _TEMPORAL else 0
    return (
        *(t for t in encoder if t.name != "position_ids"),
        *site.vector("resampler.query", config.positive("query_num") * hidden),
        *site.vector("resampler.proj", hidden * hidden),
        *site.plain("resampler.kv_proj", width, hidden),
        *site.vector("resampler.attn.in_proj_weight", 3 * hidden * hidden),
        *site.vector("resampler.attn.in_proj_bias", 3 * hidden),
        *site.plain("resampler.attn.out_proj", hidden, hidden, bias=True),
        *Norm.WITH_BIAS.at(site, hidden, "resampler.ln") * 3,
        *site.vector("resampler.pos_embed", (_SIDE * _SIDE + temporal) * hidden),
    )


def ears(site: Site, config: HfConfig) -> Tensors:
    """MiniCPM-o: Whisper's encoder before two linears."""
    part, hidden = config.section("audio_config"), config.positive("hidden_size")
    inner = part.positive("encoder_ffn_dim") // 4
    return (
        *whisper(site, part),
        *site.plain("audio_projection_layer.linear1", inner, hidden, bias=True),
        *site.plain("audio_projection_layer.linear2", hidden, hidden, bias=True),
    )
