"""Nemotron-H: one mixer a layer, which is a state, attention, dense or a mixture.

Source: vLLM 0.33.0 ``models/nemotron_h.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.mixtures import optional_size
from kvplan_cli.memory.weights.families.states import by_cache
from kvplan_cli.memory.weights.feed_forward import Plain
from kvplan_cli.memory.weights.layers import LayerFacts, given, nothing, product, sized
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.ranks import with_tokens
from kvplan_cli.memory.weights.rope import no_rope
from kvplan_cli.memory.weights.states import Mamba2
from kvplan_cli.memory.weights.tensors import Tensors

# Other cards compute the router in fp32 and store it so.
_ROUTER_KERNELS: Final = (9, 10)


def _kinds(config: HfConfig) -> Sequence[str]:
    """What each layer is, as the list of kinds or the pattern of letters says."""
    blocks = config.optional_list("block_configs")
    if blocks is not None:
        return [str(block["block_type"]) for block in blocks]
    listed = config.optional_list("layers_block_type") or config.optional_list("layer_types")
    if listed is not None:
        return [str(kind) for kind in listed]
    letters = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
    return [letters.get(letter, letter) for letter in config.text("hybrid_override_pattern")]


def mixture(facts: LayerFacts) -> Tensors:
    fp32 = facts.site.capability[0] not in _ROUTER_KERNELS
    shared = product(
        optional_size("moe_shared_expert_intermediate_size"), optional_size("n_shared_experts")
    )
    return Experts(
        path="mixer",
        count=sized("n_routed_experts"),
        shared=shared,
        whole_shared=with_tokens,
        router_fp32=lambda config: fp32,
        correction=lambda config: True,
        gated=False,
        latent=optional_size("moe_latent_size"),
    )(facts)


def _dense(facts: LayerFacts) -> Tensors:
    """Sizes may be listed, one a dense layer."""
    config = facts.config
    sizes = config.raw("intermediate_size")
    bias = given("mlp_bias")
    if not isinstance(sizes, list | tuple):
        return Plain(path="mixer", bias=bias)(facts)
    before = _kinds(config)[: facts.index].count("mlp")
    chosen = sizes[0] if len(sizes) == 1 else sizes[before]
    return Plain(path="mixer", bias=bias, intermediate=lambda config: int(chosen))(facts)


def _own_sizes(facts: LayerFacts) -> LayerFacts:
    """The layer with the sizes that a puzzle's block gives it."""
    blocks = facts.config.optional_list("block_configs")
    if blocks is None:
        return facts
    config = facts.config
    for key, value in blocks[facts.index].items():
        config = config.with_value(key, value)
    return replace(facts, config=config)


def _neither(facts: LayerFacts) -> Tensors:
    kind = _kinds(facts.config)[facts.index]
    return (mixture if kind == "moe" else _dense)(_own_sizes(facts))


_DECODER: Final = Decoder(
    attention=by_cache(
        Mamba2(path="mixer", conv_bias=given("use_conv_bias", absent=True), bias=given("use_bias")),
        Attention(path="mixer"),
        _neither,
    ),
    feed_forward=nothing,
    norms=layer_norms(1),
    rope=no_rope,
    everywhere=True,
)
NEMOTRON_H: Final[Mapping[str, Decoder]] = {
    "NemotronHForCausalLM": _DECODER,
    "NemotronHPuzzleForCausalLM": _DECODER,
}
