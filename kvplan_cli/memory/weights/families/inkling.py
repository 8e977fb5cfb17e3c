"""Inkling: short convolutions around attention, positions as learned relations, sink experts.

Source: vLLM 0.33.0 ``vllm/models/inkling``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.mixtures import by_mlp_type
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import LayerFacts, never, size, where
from kvplan_cli.memory.weights.moe import routed
from kvplan_cli.memory.weights.quantization import ExpertShape
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import no_rope
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.units import round_up

_ROUTER_ROWS: Final = 8


def _attention(facts: LayerFacts) -> Tensors:
    """The layer's own cache is its second one: the first holds the convolutions' inputs."""
    caches = tuple(cache for cache in facts.caches if cache.name.endswith(".attn"))
    layer = replace(facts, caches=caches).attention
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("attn")
    taps, heads = config.positive("conv_kernel_size"), layer.num_attention_heads
    keys = site.kv_heads(layer.num_kv_heads) * layer.head_size
    relations, extent = config.positive("d_rel"), config.positive("rel_extent")
    if layer.sliding_window is not None:
        extent = config.positive("sliding_window_size")
    return (
        *site.qkv(
            "qkvr",
            hidden,
            num_heads=heads,
            num_kv_heads=layer.num_kv_heads,
            head_size=layer.head_size,
            gates=heads * relations,
        ),
        *site.row("wo_ud", heads * layer.head_size, hidden),
        *site.vector("rel_logits_proj", relations * extent),
        *site.vector("qk_norm", layer.head_size) * 2,
        *site.vector("kv_sconv", keys * taps) * 2,
        *site.vector("cache_scale", 1, FLOAT32) * 2,
        *site.vector("sconv", site.share(hidden) * taps) * 2,
    )


def _mixture(facts: LayerFacts) -> Tensors:
    """Routed experts, and a few that every token passes with a weight of its own."""
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("mlp")
    count, sinks = config.positive("n_routed_experts"), config.integer("n_shared_experts")
    inner = config.positive("moe_intermediate_size")
    held = site.share(inner)
    return (
        *site.plain("gate", hidden, round_up(count + sinks, _ROUTER_ROWS)),
        *routed(site.at("experts"), ExpertShape(count, hidden, inner)),
        *site.vector("sink_experts.w13_weight", sinks * 2 * held * hidden),
        *site.vector("sink_experts.w2_weight", sinks * held * hidden),
    )


def _ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """The embedding is whole on every rank."""
    rows, hidden = size(config, "vocab_size"), size(config, "hidden_size")
    first = site.vector("embed_tokens", rows * hidden) if stage.is_first else ()
    return first + (site.vector("norm", hidden) if stage.is_last else ())


INKLING: Final = Decoder(
    attention=_attention,
    feed_forward=where(by_mlp_type, _mixture, GATED),
    rope=no_rope,
    tied=never,
    ends=_ends,
)
INKLINGS: Final[Mapping[str, Decoder]] = {
    "InklingForCausalLM": INKLING,
    "InklingForConditionalGeneration": INKLING,
}
