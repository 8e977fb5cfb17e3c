"""Multi-head latent attention: low-rank projections, an indexer where the layer brings one.

Source: vLLM 0.33.0 ``models/deepseek_v2.py:DeepseekV2MLAAttention`` and ``vllm/models/
deepseek_v32``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import CACHE_FACTORS, cache_scales
from kvplan_cli.memory.weights.layers import LayerFacts, Part, nothing
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import (
    MAX_POSITIONS,
    Rotation,
    attentions,
    freeze,
    parameters_of,
    table,
)
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.shape import CacheLayer, MLALayer
from kvplan_cli.values import dataclass

# The engine scales every kind but the plain one as DeepSeek does.
_YARN: Final = "deepseek_yarn"
# Rotary parts that FlashInfer's kernel takes.
_KERNEL_SIZES: Final = (64, 128, 256, 512)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Queries and keys through low-rank projections. A layer's part.

    path: the module's name in the layer. beside: further tensors of the layer. inputs: of the
    first projections, in hidden sizes. output: the last projection's name.
    """

    path: str = "self_attn"
    beside: Part = nothing
    inputs: int = 1
    output: str = "o_proj"

    def __call__(self, facts: LayerFacts) -> Tensors:
        layer = facts.latent
        if layer is None and facts.attentions:
            return unfolded_attention(facts, self.path)
        if layer is None:
            raise unknown(f"layer {facts.index} has no latent attention", facts.config.origin)
        site, hidden = facts.site.at(self.path), facts.hidden_size
        heads, nope = layer.num_attention_heads, layer.qk_nope_head_dim
        rank = layer.kv_lora_rank
        return (
            *_queries(site, facts, layer, self.inputs * hidden),
            *site.vector("kv_a_layernorm", rank),
            *site.column("kv_b_proj", rank, heads * (nope + layer.v_head_dim)),
            *site.row(self.output, heads * layer.v_head_dim, hidden),
            *(indexer(site, facts.config, hidden) if layer.is_index_group_leader else ()),
            *self.beside(facts),
            *latent_scales(site),
        )


def unfolded_attention(facts: LayerFacts, path: str = "self_attn") -> Tensors:
    """The same projections before a cache of plain keys and values.

    Source: vLLM 0.33.0 ``models/{deepseek_v2,minicpm3}.py``.
    """
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at(path)
    heads = facts.attention.num_attention_heads
    q_rank = config.optional_integer("q_lora_rank", minimum=1)
    kv_rank = config.positive("kv_lora_rank")
    nope, rope = config.positive("qk_nope_head_dim"), config.positive("qk_rope_head_dim")
    value = config.optional_integer("v_head_dim", minimum=1) or hidden // heads
    if q_rank is None:
        queries = site.column("q_proj", hidden, heads * (nope + rope))
    else:
        queries = (
            *site.replicated("q_a_proj", hidden, q_rank),
            *site.vector("q_a_layernorm", q_rank),
            *site.column("q_b_proj", q_rank, heads * (nope + rope)),
        )
    return (
        *queries,
        *site.replicated("kv_a_proj_with_mqa", hidden, kv_rank + rope),
        *site.vector("kv_a_layernorm", kv_rank),
        *site.column("kv_b_proj", kv_rank, heads * (nope + value)),
        *site.row("o_proj", heads * value, hidden),
        *cache_scales(site),
    )


def latent_scales(site: Site) -> Tensors:
    """The scales of one latent layer's cache: its own, and the checkpoint's."""
    own = (Tensor("cache_scale", 1, FLOAT32),) * CACHE_FACTORS
    return own + site.scheme.latent_scales(site.itemsize)


def _queries(site: Site, facts: LayerFacts, layer: MLALayer, hidden: int) -> Tensors:
    """What leads to queries and to the latent vector; one matrix where queries are low-rank."""
    stored = layer.kv_lora_rank + layer.qk_rope_head_dim
    rows = layer.num_attention_heads * (layer.qk_nope_head_dim + layer.qk_rope_head_dim)
    rank = facts.config.optional_integer("q_lora_rank", minimum=1)
    if rank is None:
        return (
            *site.replicated("kv_a_proj_with_mqa", hidden, stored),
            *site.column("q_proj", hidden, rows),
        )
    return (
        *site.replicated("fused_qkv_a_proj", hidden, (rank, stored)),
        *site.vector("q_a_layernorm", rank),
        *site.column("q_b_proj", rank, rows),
    )


def indexer(site: Site, config: HfConfig, hidden: int) -> Tensors:
    """What chooses a sparse layer's tokens: whole on every rank."""
    inside = site.at("indexer")
    heads, width = config.positive("index_n_heads"), config.positive("index_head_dim")
    return (
        *inside.replicated("wq_b", config.positive("q_lora_rank"), heads * width),
        *site.plain("wk_weights_proj", hidden, width + heads),
        *site.vector("k_norm.weight", width, FLOAT32),
        *site.vector("k_norm.bias", width, FLOAT32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentRope:
    """The table of the shared rotary part, and a second one where indexers rotate otherwise.

    fp32: the table keeps fp32 where its frequencies are scaled, for the kernel that reads it.
    indexers: layers have indexers with a rotation of their own. always_fp32: scaled or not.
    whole: all of the rotary part turns, whatever part the config names.
    positions_factor: rows for each position. plain: scaled frequencies turn as other models' do,
    for which there is no kernel.
    """

    fp32: bool = False
    indexers: bool = False
    always_fp32: bool = False
    whole: bool = False
    positions_factor: int = 1
    plain: bool = False

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        return tuple(self.by_rotation(config, layers, itemsize).values())

    def uncompiled(self, config: HfConfig, itemsize: int) -> LatentRope:
        """The same where the engine calls its kernel instead of compiling the rotation.

        Source: vLLM 0.33.0 ``rotary_embedding/deepseek_scaling_rope.py`` (use_flashinfer).
        """
        taken = config.positive("qk_rope_head_dim") in _KERNEL_SIZES and itemsize < FLOAT32
        return replace(self, fp32=True) if taken and not self.plain else self

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]:
        """The tables by what the engine tells them apart by."""
        latent = [layer for layer in layers if isinstance(layer, MLALayer)]
        if not latent and not attentions(layers):
            return {}
        parameters: dict[str, Any] = parameters_of(config)
        if self.whole:
            parameters.pop("partial_rotary_factor", None)
        scaled = parameters["rope_type"] != "default"
        if scaled:
            parameters["rope_type"] = _YARN
        rows = self.positions_factor * MAX_POSITIONS(config)
        rotation = Rotation(config.positive("qk_rope_head_dim"), rows, freeze(parameters))
        wide = self.always_fp32 or (scaled and self.fp32)
        width = FLOAT32 if wide else itemsize
        (rope,) = table(rotation, width, config.origin)
        own = self.indexers and any(layer.is_index_group_leader for layer in latent)
        interleaved = config.optional_boolean("indexer_rope_interleave") is True
        tables: dict[object, Tensor] = {(rotation, width, True): rope}
        if own and not interleaved:
            tables[rotation, width, False] = rope
        return tables


def latent_frequencies(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """The rotary module of ``transformers``: only a part of each latent head turns."""
    vector = Tensor("rotary_emb.inv_freq", config.positive("qk_rope_head_dim") // 2, FLOAT32)
    return (vector, vector._replace(name="rotary_emb.original_inv_freq"))


def copies(layer: MLALayer, tensor_parallel_size: int, itemsize: int) -> Tensors:
    """The two halves of ``kv_b_proj`` that the engine keeps unfolded for decoding."""
    heads = layer.num_attention_heads // tensor_parallel_size
    rank = layer.kv_lora_rank
    return (
        Tensor("W_UK_T", heads * layer.qk_nope_head_dim * rank, itemsize),
        Tensor("W_UV", heads * layer.v_head_dim * rank, itemsize),
    )
