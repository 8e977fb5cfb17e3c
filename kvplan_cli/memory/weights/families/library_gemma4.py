"""Gemma 4's language model by the Transformers library's class.

Source: vLLM 0.33.0 ``models/transformers/{base,moe}.py`` and transformers 5.20.2
``models/gemma4/{configuration,modeling}_gemma4.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Stage
from kvplan_cli.memory.weights.families.gemma import TIED
from kvplan_cli.memory.weights.families.gemma_per_layer import (
    GEMMA4,
    WIDE,
    gemma4_experts,
    per_layer_embedding,
)
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import LayerFacts, given, together
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import attentions
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.gemma import gemma4_override
from kvplan_cli.models.shape import AttentionKind, CacheLayer


def _shares_cache(facts: LayerFacts) -> bool:
    """Whether the layer takes keys and values of another: no cache tells, each has its own."""
    shared = facts.config.optional_integer("num_kv_shared_layers", minimum=0) or 0
    first = facts.config.positive("num_hidden_layers") - shared
    return 0 < first <= facts.index


def _attention(facts: LayerFacts) -> Tensors:
    """Full layers may take their keys for values; layers that share a cache have queries alone."""
    layer, site, hidden = facts.attention, facts.site.at("self_attn"), facts.hidden_size
    heads, width, bias = layer.num_attention_heads, layer.head_size, ATTENTION_BIAS(facts.config)
    full = layer.kind is AttentionKind.FULL
    if _shares_cache(facts):
        into = site.column("q_proj", hidden, heads * width, bias=bias)
    elif full and given("attention_k_eq_v")(facts.config):
        into = site.column("q_proj", hidden, heads * width, bias=bias)
        into += site.column("k_proj", hidden, layer.num_kv_heads * width, bias=bias)
    else:
        into = site.qkv(
            "qkv_proj",
            hidden,
            num_heads=heads,
            num_kv_heads=layer.num_kv_heads,
            head_size=width,
            bias=bias,
        )
    return (
        *into,
        *site.row("o_proj", heads * width, hidden, bias=bias),
        *site.vector("head_norm", width) * (1 if _shares_cache(facts) else 2),
        *cache_scales(site),
    )


def _feed_forward(facts: LayerFacts) -> Tensors:
    wide = given("use_double_wide_mlp")(facts.config) and _shares_cache(facts)
    return (WIDE if wide else GATED)(facts)


def _frequencies(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """Two vectors for each kind of layer, of its own width; the part that does not turn is zero."""
    if not attentions(layers):
        return ()
    tensors: Tensors = ()
    types = config.list("layer_types")
    for name in sorted(set(types)):
        own = gemma4_override(config, types.index(name), full=name == "full_attention")
        width = own.optional_integer("head_dim", minimum=1) or config.positive("head_dim")
        tensors += (Tensor("rotary_emb.inv_freq", width // 2, FLOAT32),) * 2
    return tensors


def _extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Embeddings for each layer stand on every stage, and the words' are scaled where they are."""
    embeds = stage.is_first or (stage.is_last and TIED(config))
    scale = site.vector("embed_tokens.embed_scale", 1) if embeds else ()
    return per_layer_embedding(site, config, 1, projected=site.replicated_site()) + scale


GEMMA4_TEXT: Final = replace(
    GEMMA4,
    attention=_attention,
    feed_forward=together(_feed_forward, gemma4_experts),
    rope=_frequencies,
    everywhere=False,
    extras=_extras,
)
