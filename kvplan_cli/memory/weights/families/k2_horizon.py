"""K2 Horizon: values from a mixture of experts, over experts of the usual kind.

Source: vLLM 0.33.0 ``models/k2_horizon.py``.
"""

from __future__ import annotations

from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, cache_scales, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS
from kvplan_cli.memory.weights.families.mixtures import SMALL, optional_size, qwen_sparse
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import LayerFacts, given, product, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import QkNorm, qk_widths
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.shape import AttentionLayer
from kvplan_cli.values import dataclass

_ROUTER_BIAS: Final = given("moe_gate_bias")
_QK_NORM: Final = qk_norm(QkNorm.SHARD, given("query_key_norm"))
_VALUE_EXPERTS: Final = optional_size("mova_num_experts")


def _sparse(config: HfConfig, index: int) -> bool:
    return config.integer("num_experts") > 0 and qwen_sparse(config, index)


def _mixes_values(config: HfConfig, index: int) -> bool:
    return _sparse(config, index) and _VALUE_EXPERTS(config) > 0


def _gate(facts: LayerFacts) -> Tensors:
    """A gate of the attention's output, as wide as the queries."""
    if not facts.config.has("attention_gate_func"):
        return ()
    layer = facts.attention
    rows = layer.num_attention_heads * layer.head_size
    return facts.site.at("self_attn").column("gate_proj", facts.hidden_size, rows)


_ATTENTION: Final = Attention(
    qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=_QK_NORM, beside=_gate
)


def _mixed_attention(facts: LayerFacts) -> Tensors:
    """Queries and keys of one matrix; a router chooses among the matrices of the values."""
    layer, config, hidden = facts.attention, facts.config, facts.hidden_size
    site, count = facts.site.at("self_attn"), _VALUE_EXPERTS(config)
    wide = layer.num_attention_heads * layer.head_size
    keys = site.kv_heads(layer.num_kv_heads) * layer.head_size
    bias = ATTENTION_BIAS(config)
    values = (
        tensor
        for number in range(count)
        for tensor in site.at("v_experts").replicated(str(number), hidden, keys)
    )
    heads = (layer.num_attention_heads, layer.num_kv_heads, layer.head_size)
    norms = qk_widths(_QK_NORM(config), site, *heads)
    return (
        *site.replicated("qk_proj", hidden, (site.share(wide), keys), bias=bias),
        *site.replicated("v_router", hidden, count),
        *(site.vector("v_router.bias", count, FLOAT32) if _ROUTER_BIAS(config) else ()),
        *values,
        *site.row("o_proj", wide, hidden, bias=bias),
        *(tensor for width in norms for tensor in site.vector("qk_norm", width)),
        *_gate(facts),
        *cache_scales(site),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experts(Experts):
    """Experts whose router is under the checkpoint's quantization."""

    def _router(self, site: Site, facts: LayerFacts, count: int) -> Tensors:
        router = site.replicated("gate", facts.hidden_size, count)
        biased = _ROUTER_BIAS(facts.config)
        return router + (site.vector("gate.bias", count, FLOAT32) if biased else ())


def _part_of_a_head(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    rotary = config.optional_integer("rope_head_dim", minimum=0) or layer.head_size
    return {**parameters, "rope_dim": rotary}


K2_HORIZON: Final = Decoder(
    attention=where(_mixes_values, _mixed_attention, _ATTENTION),
    feed_forward=where(
        _sparse,
        _Experts(shared=product(SMALL, lambda config: config.integer("num_shared_experts"))),
        GATED,
    ),
    rope=RopeTables(adjust=_part_of_a_head),
    everywhere=True,
)
