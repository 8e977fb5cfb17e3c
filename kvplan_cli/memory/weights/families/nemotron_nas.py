"""Nemotron found by architecture search: layers without attention or without a feed-forward.

Source: vLLM 0.33.0 ``models/nemotron_nas.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.llama_like import LLAMA
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.layers import LayerFacts, given
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.units import round_up

_MULTIPLE: Final = 256


def _block(facts: LayerFacts) -> HfConfig:
    blocks, config = facts.config.list("block_configs"), facts.config
    path = f"block_configs[{facts.index}]"
    if facts.index >= len(blocks) or not isinstance(blocks[facts.index], Mapping):
        raise config.wrong(path, "an object for each layer")
    return HfConfig(blocks[facts.index], config.origin, config.where(path)).section("ffn")


def _attention(facts: LayerFacts) -> Tensors:
    return LLAMA.attention(facts) if facts.attentions else ()


def _feed_forward(facts: LayerFacts) -> Tensors:
    """As wide as the layer's multiplier says, two thirds of it, rounded up."""
    block, hidden = _block(facts), facts.hidden_size
    if block.optional_boolean("no_op"):
        return ()
    factor = block.optional_number("ffn_mult")
    if factor is None:
        inner = block.positive("intermediate_size")
    else:
        inner = round_up(int(2 * factor * hidden / 3), _MULTIPLE)
    return Gated(intermediate=lambda config: inner, bias=given("mlp_bias"))(facts)


def _norms(facts: LayerFacts) -> Tensors:
    """One before each part that the layer has."""
    parts = bool(facts.attentions) + (not _block(facts).optional_boolean("no_op"))
    return layer_norms(parts)(facts)


NEMOTRON_NAS: Final[Mapping[str, Decoder]] = {
    "DeciLMForCausalLM": Decoder(
        attention=_attention, feed_forward=_feed_forward, norms=_norms, rope=LLAMA.rope
    )
}
