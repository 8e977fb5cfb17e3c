"""EmbeddingGemma 2: Gemma's layers with inputs of each layer's own, and a projection at the end.

Source: vLLM 0.33.0 ``models/embedding_gemma2.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM
from kvplan_cli.memory.weights.layers import LayerFacts, always, size
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import Rotation, freeze, no_rope, parameters_of, table
from kvplan_cli.memory.weights.tensors import Tensors


def _beside(facts: LayerFacts) -> Tensors:
    width, hidden, site = (
        facts.config.positive("hidden_size_per_layer_input"),
        facts.hidden_size,
        facts.site,
    )
    return (
        *site.replicated("ple_block.per_layer_input_gate", hidden, width),
        *site.replicated("ple_block.per_layer_projection", width, hidden),
        *site.vector("ple_block.post_per_layer_input_norm", hidden),
        *site.vector("layer_scalar", 1),
    )


def _head_size(config: HfConfig, kind: str) -> int:
    """Layers of one kind may have a head size of their own."""
    kinds = config.list("layer_types")
    own = config.optional_section("per_layer_config")
    for name in own.values if own is not None else ():
        entry = own.section(name) if own is not None else config
        if kinds[int(name)] == kind and entry.has("head_dim"):
            return entry.positive("head_dim")
    return config.positive("head_dim")


def _tables(site: Site, config: HfConfig) -> Tensors:
    """Tables end where requests do."""
    rows = min(config.positive("max_position_embeddings"), site.max_model_len)
    tensors: Tensors = ()
    for kind in sorted({str(kind) for kind in config.list("layer_types")}):
        parameters: dict[str, Any] = parameters_of(config, kind)
        rotation = Rotation(_head_size(config, kind), rows, freeze(parameters))
        tensors += table(rotation, site.itemsize, config.origin)
    return tensors


def _extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden, width = size(config, "hidden_size"), config.positive("hidden_size_per_layer_input")
    layers = config.positive("num_hidden_layers")
    return (
        *site.column("ple.per_layer_model_projection", hidden, layers * width),
        *site.vector("ple.per_layer_projection_norm", width),
        *site.plain("embedding_projection", hidden, config.positive("embedding_dim")),
        *site.vector("embed_scale", 1),
        *_tables(site, config),
    )


EMBEDDING_GEMMA2: Final[Mapping[str, Decoder]] = {
    "EmbeddingGemma2Model": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
        norms=layer_norms(4),
        beside=_beside,
        rope=no_rope,
        tied=always,
        everywhere=True,
        extras=_extras,
    )
}
