"""HRM text: two stacks of layers that run several times, each time with caches of their own.

Source: vLLM 0.33.0 ``models/hrm_text.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.layers import nothing, size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors

_STACKS: Final = 2


def _layer(site: Site, config: HfConfig) -> Tensors:
    hidden, inner = size(config, "hidden_size"), config.positive("intermediate_size")
    heads = size(config, "num_attention_heads")
    kv_heads = config.optional_integer("num_key_value_heads", minimum=1) or heads
    head_size = config.optional_integer("head_dim", minimum=1) or hidden // heads
    return (
        *site.qkv(
            "gqkv_proj",
            hidden,
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_size=head_size,
            gates=heads * head_size,
        ),
        *site.row("o_proj", heads * head_size, hidden),
        *site.column("gate_up_proj", hidden, (inner, inner)),
        *site.row("down_proj", inner, hidden),
    )


def _stacks(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    if not (stage.is_first and stage.is_last):
        raise unknown("looping stacks on pipeline stages", config.origin)
    layers = _STACKS * config.positive("num_layers_per_stack")
    return (
        *site.vector("z_L_init", size(config, "hidden_size")),
        *_layer(site, config) * layers,
        *cache_scales(site) * config.positive("num_hidden_layers"),
    )


HRM: Final[Mapping[str, Decoder]] = {
    "HrmTextForCausalLM": Decoder(
        attention=nothing,
        feed_forward=nothing,
        norms=nothing,
        final_norm=Norm.NONE,
        extras=_stacks,
    )
}
