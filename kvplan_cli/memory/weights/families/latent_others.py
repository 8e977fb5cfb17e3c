"""Other decoders with latent attention: LongCat's two a layer, HunYuan 4's residual streams.

Source: vLLM 0.33.0 ``models/longcat_flash{,_ngram}.py`` and ``vllm/models/hy_v4``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.deepseek import EXPERTS
from kvplan_cli.memory.weights.families.mixtures import by_mlp_type
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.latent import LatentAttention, LatentRope
from kvplan_cli.memory.weights.layers import (
    LayerFacts,
    always,
    never,
    size,
    sized,
    together,
    where,
)
from kvplan_cli.memory.weights.moe import routed
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.quantization import ExpertShape
from kvplan_cli.memory.weights.ranks import VOCABULARY_PADDING, Site, sharded
from kvplan_cli.memory.weights.tensors import FLOAT32, INT32, Tensors
from kvplan_cli.models.shape import MLALayer
from kvplan_cli.units import round_up


def _two_attentions(facts: LayerFacts) -> Tensors:
    tensors: Tensors = ()
    latent = [layer for layer in facts.caches if isinstance(layer, MLALayer)]
    for index, layer in enumerate(latent):
        part = LatentAttention(path=f"self_attn.{index}")
        tensors += part(replace(facts, caches=(layer,)))
    return tensors


def _longcat_feed_forward(facts: LayerFacts) -> Tensors:
    """Two dense layers, and experts some of which do nothing."""
    config, hidden = facts.config, facts.hidden_size
    dense = sized("ffn_hidden_size", "intermediate_size")
    site = facts.site.at("mlp")
    experts = config.positive("n_routed_experts")
    choices = experts + (config.optional_integer("zero_expert_num", minimum=0) or 0)
    inner = sized("expert_ffn_hidden_size", "moe_intermediate_size")(config)
    return (
        *Gated(path="mlps.0", intermediate=dense)(facts),
        *Gated(path="mlps.1", intermediate=dense)(facts),
        *site.plain("router.classifier", hidden, choices, fp32=True),
        *site.vector("router.e_score_correction_bias", choices, FLOAT32),
        *routed(site.at("experts"), ExpertShape(experts, hidden, inner)),
    )


def _ngram_tables(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """The first stage's tables of n-grams, one behind the other, and their projections; in the
    type that the config names.
    """
    ratio = config.optional_integer("ngram_vocab_size_ratio", minimum=0)
    if ratio is None or not stage.is_first:
        return ()
    lengths, splits = config.positive("emb_neighbor_num"), config.positive("emb_split_num")
    hidden, count = size(config, "hidden_size"), splits * (lengths - 1)
    each = ratio * size(config, "vocab_size")
    rows = round_up(count * (each + count), VOCABULARY_PADDING)
    width, itemsize = hidden // count, _stated_itemsize(config)
    return (
        *site.vector("oe_embedder", site.share(rows) * width, itemsize),
        *site.vector("oe_projection", count * width * hidden, itemsize),
        *site.vector("ne_weights", count * lengths, INT32),
        *site.vector("ne_mods", count, INT32),
        *site.vector("exclusive_sizes", count + 1, INT32),
    )


def _stated_itemsize(config: HfConfig) -> int:
    for key in ("torch_dtype", "dtype"):
        name = config.optional_text(key)
        if name is not None:
            return DType.from_name(name).itemsize
    return DType.BFLOAT16.itemsize


def hyper_connections(site: Site, streams: int, hidden: int, outputs: int, scales: int) -> Tensors:
    """What mixes so many residual streams: a matrix, its base and its scales, in fp32."""
    return (
        *site.vector("hc_fn", outputs * streams * hidden, FLOAT32),
        *site.vector("hc_base", outputs, FLOAT32),
        *site.vector("hc_scale", scales, FLOAT32),
    )


def _two_mixers(facts: LayerFacts) -> Tensors:
    """Two mixers of residual streams."""
    streams = facts.config.positive("hc_mult")
    return hyper_connections(facts.site, streams, facts.hidden_size, 2 * streams, 2) * 2


def sinks_and_gate(facts: LayerFacts) -> Tensors:
    """HunYuan 4: sinks, in fp32 for kernels that read them, and a gate of the attention's output.

    Source: vLLM 0.33.0 ``vllm/models/hy_v4/nvidia/attention.py:_resolve_sink_backend``.
    """
    layer = facts.latent
    assert layer is not None, "attention came first"
    site = facts.site.at("self_attn")
    rows = layer.num_attention_heads * layer.v_head_dim
    sinks = site.share(layer.num_attention_heads)
    width = DType.BFLOAT16.itemsize if site.flashinfer else FLOAT32
    return (
        *site.vector("learnable_sink_param", sinks, width),
        *site.column("linear_gate", facts.hidden_size, rows),
    )


def stream_head(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """What makes one stream of several before the head."""
    if not stage.is_last:
        return ()
    streams = config.positive("hc_mult")
    return hyper_connections(site, streams, size(config, "hidden_size"), streams, 1)


_LONGCAT: Final = Decoder(
    attention=_two_attentions,
    feed_forward=_longcat_feed_forward,
    norms=layer_norms(4),
    rope=LatentRope(),
)
LATENT_OTHERS: Final[Mapping[str, Decoder]] = {
    "LongcatFlashForCausalLM": _LONGCAT,
    "LongcatFlashNgramForCausalLM": replace(_LONGCAT, tied=never, extras=_ngram_tables),
    "HYV4ForCausalLM": Decoder(
        attention=LatentAttention(),
        feed_forward=where(
            by_mlp_type,
            replace(
                EXPERTS,
                router_fp32=always,
                correction=always,
                tensorrt=always,
                whole_shared=sharded,
            ),
            GATED,
        ),
        beside=together(_two_mixers, sinks_and_gate),
        rope=LatentRope(),
        extras=stream_head,
    ),
}
