"""MiniMax M3's vision encoder.

Source: vLLM 0.33.0 ``vllm/models/minimax_m3/common/vision_tower.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.clip_like import block_of, vision
from kvplan_cli.memory.weights.towers.encoder import pixels, text_hidden, two_linears

_AXES = 3


def minimax(site: Site, config: HfConfig) -> Tensors:
    part, hidden = vision(config), text_hidden(config)
    width = part.positive("hidden_size")
    merging = part.section("img_token_compression_config")
    frames, merge = merging.positive("temporal_patch_size"), merging.positive("spatial_merge_size")
    inner = config.optional_integer("projector_hidden_size", minimum=1) or hidden
    head_size = width // part.positive("num_attention_heads")
    bias = config.optional_boolean("multimodal_projector_bias") is not False
    frequencies = head_size // 2 * 2 // _AXES // 2
    return (
        *site.plain("patch_embedding", pixels(part) * frames, width),
        *Norm.WITH_BIAS.at(site, width, "pre_layrnorm"),
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *site.vector("inv_freq", frequencies, FLOAT32) * _AXES,
        *two_linears(site, width, inner, hidden, bias=bias),
        *two_linears(site, hidden * merge * merge, inner, hidden, bias=bias),
    )
