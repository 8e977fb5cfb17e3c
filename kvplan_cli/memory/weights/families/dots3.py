"""Dots3 NOTE's language model: sparse latent attention, and wider vectors in sliding layers.

Source: vLLM 0.33.0 ``vllm/models/dots3_note/nvidia/{model,multimodal}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.deepseek import EXPERTS, sparse_layer
from kvplan_cli.memory.weights.families.mixtures import SMALL
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.latent import LatentAttention
from kvplan_cli.memory.weights.layers import INTERMEDIATE, LayerFacts, where
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import MAX_POSITIONS, Rotation, freeze, parameters_of, table
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensor, Tensors
from kvplan_cli.models.shape import CacheLayer, MLALayer
from kvplan_cli.units import round_up

_HEADWISE: Final = "headwise"


def _attention(facts: LayerFacts) -> Tensors:
    """Latent attention, by the sizes of its kind, with a gate of its output."""
    layer, config = facts.latent, facts.config
    if layer is None:
        raise unknown(f"layer {facts.index} has no latent attention", config.origin)
    slides, site = layer.sliding_window is not None, facts.site.at("self_attn")
    if slides:
        rank = config.positive("swa_q_lora_rank")
        facts = replace(facts, config=config.with_value("q_lora_rank", rank))
    kind = config.text("swa_attention_gate_type" if slides else "attention_gate_type")
    heads, hidden = layer.num_attention_heads, facts.hidden_size
    if kind == _HEADWISE:
        gate = site.replicated("g_proj", hidden, heads)
    else:
        gate = site.column("g_proj", hidden, heads * layer.v_head_dim)
    norm = site.vector("k_rope_only_layernorm", layer.qk_rope_head_dim)
    return LatentAttention()(facts) + gate + norm


def _padded(site: Site, size: int) -> int:
    """An inner size of which each rank holds whole blocks of fp8."""
    block = site.scheme.linear_block
    return size if block is None else round_up(size, block[0] * site.tensor_parallel_size)


def dense(facts: LayerFacts) -> Tensors:
    """A dense layer, padded for blocks."""
    return Gated(intermediate=lambda config: _padded(facts.site, INTERMEDIATE(config)))(facts)


def _experts(facts: LayerFacts) -> Tensors:
    def shared(config: HfConfig) -> int:
        return _padded(facts.site, config.integer("n_shared_experts") * SMALL(config))

    return replace(EXPERTS, shared=shared)(facts)


class _Rope:
    """A table for each of the two kinds of layers; often the two are one."""

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        return tuple(self.by_rotation(config, layers, itemsize).values())

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]:
        """The tables by what the engine tells them apart by."""
        tables: dict[object, Tensor] = {}
        for layer in (layer for layer in layers if isinstance(layer, MLALayer)):
            rotation = _rotation(config, layer)
            (made,) = table(rotation, itemsize, config.origin)
            tables[rotation, itemsize, True] = made
            if layer.is_index_group_leader and not _interleaves(config):
                tables[rotation, itemsize, False] = made
        return tables


def _interleaves(config: HfConfig) -> bool:
    """Whether indexers turn neighbours as the vectors do; they do where nothing is said."""
    return config.optional_boolean("indexer_rope_interleave") is not False


def _rotation(config: HfConfig, layer: MLALayer) -> Rotation:
    theta = parameters_of(config).get("rope_theta")
    key = "rope_theta"
    if layer.sliding_window is not None:
        key = "swa_rope_theta"
        theta = config.optional_number(key)
    if theta is None:
        raise MissingFieldError(config.where(key), config.origin)
    parameters = freeze({"rope_type": "default", "rope_theta": theta})
    return Rotation(layer.qk_rope_head_dim, MAX_POSITIONS(config), parameters)


def _towers(site: Site, config: HfConfig) -> Tensors:
    for key in ("vision_config", "audio_config"):
        if config.has(key):
            raise unknown("the encoders of dots3 NOTE are not described", config.where(key))
    return ()


_DOTS3: Final = Decoder(
    attention=_attention, feed_forward=where(sparse_layer, _experts, dense), rope=_Rope()
)
DOTS3_NOTE: Final = Wrapper(decoder=_DOTS3, towers=(_towers,))
