"""InternS2 Mobius: the layers of Qwen3.5 take turns with a few sets of experts.

Source: vLLM 0.33.0 ``models/interns2_mobius.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.states import QWEN3_5
from kvplan_cli.memory.weights.layers import LayerFacts
from kvplan_cli.memory.weights.moe import fits_tensorrt, routed
from kvplan_cli.memory.weights.quantization import ExpertShape
from kvplan_cli.memory.weights.ranks import Site, with_tokens
from kvplan_cli.memory.weights.tensors import Tensors


def _shared_expert(facts: LayerFacts) -> Tensors:
    site, hidden = facts.site.at("mlp"), facts.hidden_size
    inner = facts.config.positive("shared_expert_intermediate_size")
    shared = site.at("shared_expert")
    if with_tokens(site):
        shared = shared.replicated_site()
    return (
        *shared.column("gate_up_proj", hidden, (inner, inner)),
        *shared.row("down_proj", inner, hidden),
        *site.plain("shared_expert_gate", hidden, 1),
    )


def _blocks(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """The sets of experts, all of them on every stage."""
    hidden, count = config.positive("hidden_size"), config.positive("num_experts")
    shape = ExpertShape(count, hidden, config.positive("moe_intermediate_size"))
    inside = site.at("model.meta_mlp.experts")
    block = (
        *site.plain("gate", hidden, count),
        *routed(inside, shape, tensorrt=fits_tensorrt(config)),
    )
    return block * config.positive("num_blocks")


MOBIUS: Final[Decoder] = replace(QWEN3_5, feed_forward=_shared_expert, extras=_blocks)
