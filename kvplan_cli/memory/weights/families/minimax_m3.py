"""MiniMax M3: attention to chosen blocks, with an indexer in the merged projection.

Source: vLLM 0.33.0 ``vllm/models/minimax_m3/nvidia/model.py``.
"""

from __future__ import annotations

from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import CACHE_FACTORS, Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.llama_like import HEAD_NORM
from kvplan_cli.memory.weights.families.mixtures import times
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.layers import LayerFacts, always, given, sized, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.shape import AttentionLayer, IndexLayer

_DENSE: Final = Attention(qk_norm=HEAD_NORM)


def _attention(facts: LayerFacts) -> Tensors:
    """Layers with an indexer project its queries and its one key as well."""
    if not any(isinstance(cache, IndexLayer) for cache in facts.caches):
        return _DENSE(facts)
    layer, hidden, site = facts.attention, facts.hidden_size, facts.site.at("self_attn")
    heads, width = layer.num_attention_heads, layer.head_size
    held, keys = site.share(heads) * width, site.kv_heads(layer.num_kv_heads) * width
    # The indexer has as many query heads as there are KV heads.
    parts = (held, keys, keys, keys, width)
    return (
        *site.replicated("qkv_proj", hidden, parts),
        *site.row("o_proj", heads * width, hidden),
        *site.vector("qk_norm", width) * 4,
        *site.vector("cache_scale", 1, FLOAT32) * CACHE_FACTORS,
    )


def _sparse(config: HfConfig, index: int) -> bool:
    return bool(config.list("moe_layer_freq")[index])


def _rotary(parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig) -> dict[str, Any]:
    parameters["rope_dim"] = config.positive("rotary_dim")
    return parameters


_SIZE: Final = sized("intermediate_size")
MINIMAX_M3: Final = Decoder(
    attention=_attention,
    feed_forward=where(
        _sparse,
        Experts(
            path="block_sparse_moe",
            count=sized("num_local_experts"),
            intermediate=_SIZE,
            shared=times("n_shared_experts", _SIZE),
            router_fp32=always,
            correction=given("use_routing_bias"),
        ),
        Gated(intermediate=sized("dense_intermediate_size")),
    ),
    rope=RopeTables(adjust=_rotary),
)
