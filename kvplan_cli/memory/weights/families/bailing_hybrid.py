"""Ling 2.5 and 3: linear or delta attention beside latent attention, over Ling's experts.

Source: vLLM 0.33.0 ``models/{bailing_moe_linear,bailing_moe_v3}.py``,
``layers/mamba/linear/bailing_linear_attn.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.bailing import shared_each
from kvplan_cli.memory.weights.families.mixtures import after_dense
from kvplan_cli.memory.weights.families.states import by_cache
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.latent import LatentAttention, LatentRope
from kvplan_cli.memory.weights.layers import LayerFacts, always, either, given, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import MAX_POSITIONS, Rotation, freeze, parameters_of, table
from kvplan_cli.memory.weights.states import missing_state
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.recurrent import DeltaAttentionState, LinearAttentionState
from kvplan_cli.models.shape import CacheLayer, StateLayer
from kvplan_cli.units import round_up

_USES_BIAS: Final = given("use_bias")
_QKV_BIAS: Final = either(_USES_BIAS, given("use_qkv_bias"))


def _linear_attention(facts: LayerFacts) -> Tensors:
    """As many keys and values as queries, a gate of the output, and its norm."""
    state, config, hidden = facts.state, facts.config, facts.hidden_size
    if not isinstance(state, LinearAttentionState):
        raise missing_state(facts, "linear attention")
    site, wide = facts.site.at("self_attn"), state.num_heads * state.head_dim
    normed = given("use_qk_norm")(config)
    return (
        *site.column("query_key_value", hidden, (wide, wide, wide), bias=_QKV_BIAS(config)),
        *(Norm.ONE.at(site, state.head_dim, "qk_norm") * 2 if normed else ()),
        *site.column("g_proj", hidden, wide),
        *site.row("dense", wide, hidden, bias=_USES_BIAS(config)),
        *site.vector("g_norm", site.share(wide)),
    )


def _delta_attention(facts: LayerFacts) -> Tensors:
    """Delta attention whose gates are of full rank."""
    state, hidden = facts.state, facts.hidden_size
    if not isinstance(state, DeltaAttentionState):
        raise missing_state(facts, "delta")
    site, wide = facts.site.at("self_attn"), state.num_heads * state.head_dim
    held, heads = site.share(wide), site.share(state.num_heads)
    return (
        *_delta_inputs(site, hidden, wide, state.num_heads),
        *site.column("f_proj", hidden, wide),
        *site.column("g_proj", hidden, wide),
        *site.vector("conv1d.weight", 3 * held * state.conv_kernel, FLOAT32),
        *site.row("o_proj", wide, hidden),
        *site.vector("dt_bias", held, FLOAT32),
        *site.vector("A_log", heads, FLOAT32),
        *site.vector("o_norm", state.head_dim),
    )


def _delta_inputs(site: Site, hidden: int, wide: int, heads: int) -> Tensors:
    """One matrix, or two where blocks of fp8 leave the heads' rows as they are."""
    if site.scheme.linear_block is None or not site.ignores("b_proj"):
        return site.column("qkvb_proj", hidden, (wide, wide, wide, heads))
    return (
        *site.column("qkv_proj", hidden, (wide, wide, wide)),
        *site.column("b_proj", hidden, heads),
    )


def _output_gate(facts: LayerFacts) -> Tensors:
    """A gate of latent attention's output, one a head or one an element."""
    layer, config = facts.latent, facts.config
    kind = config.optional_text("gated_attention_proj_granularity_type")
    if layer is None or kind not in ("head_wise", "element_wise"):
        return ()
    site, heads = facts.site.at("self_attn"), layer.num_attention_heads
    if kind == "element_wise":
        return site.column("g_proj", facts.hidden_size, heads * layer.v_head_dim)
    if _within_a_block(site, heads):
        return site.replicated("g_proj", facts.hidden_size, heads)
    return site.column("g_proj", facts.hidden_size, heads)


def _within_a_block(site: Site, heads: int) -> bool:
    """Whether the gate's rows share their scales, so that ranks cannot share the rows out."""
    block = site.scheme.linear_block
    return (
        block is not None
        and site.tensor_parallel_size > 1
        and heads <= block[0]
        and not site.ignores("g_proj")
        and site.share(heads) % block[0] != 0
    )


def _experts_3(facts: LayerFacts) -> Tensors:
    """The shared experts padded so that each rank holds whole blocks of fp8."""
    site = facts.site.at("mlp.shared_experts")
    block = site.scheme.linear_block
    if block is None:
        return _EXPERTS_3(facts)
    names = ("gate_up_proj", "down_proj")
    sizes = [size for name, size in zip(names, block, strict=True) if not site.ignores(name)]
    multiple = site.tensor_parallel_size * lcm(*sizes) if sizes else 1

    def shared(config: HfConfig) -> int:
        return round_up(shared_each(config), multiple)

    return replace(_EXPERTS_3, shared=shared)(facts)


def _fp32_unless_told(config: HfConfig) -> bool:
    return config.optional_text("router_dtype") in (None, "fp32")


_LATENT_ROPE: Final = LatentRope(whole=True)


def _two_ropes(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """The latent layers' table, and that of the linear ones, which turn a part of each head."""
    states = [layer.state for layer in layers if isinstance(layer, StateLayer)]
    sizes = {state.head_dim for state in states if isinstance(state, LinearAttentionState)}
    parameters = freeze(parameters_of(config))
    linear = (
        table(Rotation(size, MAX_POSITIONS(config), parameters), itemsize, config.origin)
        for size in sizes
    )
    return (*_LATENT_ROPE(config, layers, itemsize), *(each for (each,) in linear))


_EXPERTS_2_5: Final = Experts(
    shared=shared_each,
    router_fp32=_fp32_unless_told,
    correction=given("moe_router_enable_expert_bias"),
)
_EXPERTS_3: Final = replace(_EXPERTS_2_5, router_fp32=always, correction=always)
_DENSE: Final = Gated(bias=_USES_BIAS)
_SPARSE: Final = after_dense("first_k_dense_replace")
BAILING_3: Final = Decoder(
    attention=by_cache(_delta_attention, LatentAttention(beside=_output_gate, output="dense")),
    feed_forward=where(_SPARSE, _experts_3, _DENSE),
    rope=_LATENT_ROPE,
)
# Beside images, positions of three kinds turn, in a table of four rows a position.
SEEING_BAILING_3: Final = replace(BAILING_3, rope=LatentRope(whole=True, positions_factor=4))
BAILING_HYBRIDS: Final[Mapping[str, Decoder]] = {
    "BailingMoeV2_5ForCausalLM": Decoder(
        attention=by_cache(_linear_attention, LatentAttention()),
        feed_forward=where(_SPARSE, _EXPERTS_2_5, _DENSE),
        rope=_two_ropes,
    ),
    "BailingMoeV3ForCausalLM": BAILING_3,
}
