"""openPangu VL's vision encoder.

Source: vLLM 0.33.0 ``models/openpangu_vl.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.clip_like import vision
from kvplan_cli.memory.weights.towers.encoder import Block, text_hidden, two_linears
from kvplan_cli.memory.weights.towers.qwen import patch_size
from kvplan_cli.units import round_up

# Layers that are read where the config names none.
_READ = (-1, -3)


def pangu(site: Site, config: HfConfig) -> Tensors:
    """Qwen2.5's encoder with a merger for each layer that is read, and a linear behind them."""
    part = vision(config)
    width, merge = part.positive("hidden_size"), part.positive("spatial_merge_size")
    merged, outputs = width * merge * merge, part.positive("out_hidden_size")
    block = Block(
        hidden_size=width,
        intermediate_size=round_up(part.positive("intermediate_size"), site.tensor_parallel_size),
        norm=Norm.ONE,
        gated=part.text("hidden_act") == "silu",
    )
    read = part.optional_list("mm_unit_vision_select_layer")
    merger = Norm.ONE.at(site, width, "ln_q") + two_linears(site, merged, merged, outputs)
    return (
        *site.plain("patch_embed.proj", patch_size(part), width),
        *block.tensors(site, part.positive("depth")),
        *Norm.ONE.at(site, width, "final_layernorm"),
        *merger * len(_READ if read is None else read),
        *site.plain("vision_projection.fc1", outputs, text_hidden(config), bias=True),
    )
