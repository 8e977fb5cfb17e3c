"""Zamba 2: blocks of attention that several layers share, with adapters of each layer's own.

Source: vLLM 0.33.0 ``models/zamba2.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.layers import LayerFacts, given, nothing, size
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import Rotation, freeze, no_rope, parameters_of, table
from kvplan_cli.memory.weights.states import Mamba2
from kvplan_cli.memory.weights.tensors import Tensors

_SHARING: Final = "hybrid"


def _sharing(config: HfConfig) -> int:
    return list(config.list("layers_block_type")).count(_SHARING)


def _adapter(site: Site, inputs: int, rank: int, outputs: tuple[int, ...]) -> Tensors:
    return (*site.column("A", inputs, rank), *site.column("B", rank, outputs))


def _widths(config: HfConfig) -> tuple[int, int, int]:
    """Heads, their size, and the width that the shared attention reads."""
    heads = size(config, "num_attention_heads")
    width = config.optional_integer("attention_hidden_size", minimum=1)
    width = width or 2 * size(config, "hidden_size")
    given_size = config.optional_integer("attention_head_dim", minimum=1)
    return heads, given_size or width // heads, width


def _block(site: Site, config: HfConfig) -> Tensors:
    """One shared block."""
    heads, head_size, width = _widths(config)
    hidden, inner = size(config, "hidden_size"), config.positive("intermediate_size")
    bias = given("add_bias_linear")(config)
    return (
        *site.qkv("qkv_proj", width, num_heads=heads, num_kv_heads=heads, head_size=head_size),
        *site.row("o_proj", width, hidden),
        *site.column("gate_up_proj", hidden, (inner, inner), bias=bias),
        *site.row("down_proj", inner, hidden, bias=bias),
        *site.vector("input_layernorm", width),
        *site.vector("pre_ff_layernorm", hidden),
    )


def _shared(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """The blocks, and what each layer that uses one adds to it."""
    sharing = _sharing(config)
    blocks = min(config.positive("num_mem_blocks"), sharing)
    _, head_size, width = _widths(config)
    hidden, inner = size(config, "hidden_size"), config.positive("intermediate_size")
    rank = config.positive("adapter_rank")
    own = (
        *_adapter(site, hidden, rank, (inner, inner)),
        *site.replicated("linear", hidden, hidden),
        *cache_scales(site),
    )
    if given("use_shared_attention_adapter")(config):
        own += _adapter(site, width, rank, (width,)) * 3
    rope: Tensors = ()
    if given("use_mem_rope")(config):
        positions = config.positive("max_position_embeddings")
        rotation = Rotation(head_size, positions, freeze(parameters_of(config)))
        rope = table(rotation, site.itemsize, config.origin)
    return _block(site, config) * blocks + own * sharing + rope


def _mixer(facts: LayerFacts) -> Tensors:
    mixer = Mamba2(
        path="mamba", conv_bias=given("use_conv_bias", absent=True), bias=given("add_bias_linear")
    )
    return mixer(facts)


ZAMBA: Final[Mapping[str, Decoder]] = {
    "Zamba2ForCausalLM": Decoder(
        attention=_mixer,
        feed_forward=nothing,
        norms=layer_norms(1),
        rope=no_rope,
        tied=given("tie_word_embeddings", absent=True),
        extras=_shared,
    )
}
