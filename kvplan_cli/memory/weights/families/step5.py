"""Step 5: windows beside attention that chooses regions, and norms in a dtype of their own.

Source: vLLM 0.33.0 ``vllm/models/step5/nvidia/{model,config,layernorm}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.mixtures import SMALL
from kvplan_cli.memory.weights.families.mixtures_windowed import (
    listed_theta,
    step_gate,
    step_rope,
    step_sparse,
)
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import LayerFacts, always, size, sized, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables, Rotation, freeze, parameters_of, table
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.shape import CacheLayer, RegionLayer

# What the engine takes where the sparse section is mute; it takes no other width.
_WIDTH: Final = 256
_INDEX_HEADS: Final = 16
_INDEX_ROTARY: Final = 32
_NORM_BYTES: Final[Mapping[str, int]] = {
    "bf16": 2,
    "bfloat16": 2,
    "fp32": FLOAT32,
    "float32": FLOAT32,
    "float": FLOAT32,
}
_POSITIONS: Final = sized("max_position_embeddings", "max_seq_len")


def _index_size(config: HfConfig, key: str, mute: int) -> int:
    return config.section("sparse_config").optional_integer(key, minimum=1) or mute


def norm_site(site: Site, config: HfConfig) -> Site:
    """The place of the norms, whose dtype is not the model's."""
    itemsize = _NORM_BYTES.get((config.optional_text("norm_dtype") or "bf16").lower())
    if itemsize is None:
        raise config.wrong("norm_dtype", "bf16 or fp32")
    return replace(site, itemsize=itemsize)


def _norms(facts: LayerFacts) -> Tensors:
    """Two of the layer, and two of a head's queries and keys."""
    site, head_size = norm_site(facts.site, facts.config), facts.attention.head_size
    return (*site.vector("norm", facts.hidden_size) * 2, *site.vector("qk_norm", head_size) * 2)


def _last_norm(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    if not stage.is_last:
        return ()
    return norm_site(site, config).vector("final_norm", size(config, "hidden_size"))


def _beside(facts: LayerFacts) -> Tensors:
    """A gate for each head, and the indexer of a layer that chooses regions: every rank has the
    index heads of its own groups of keys."""
    gate = step_gate(facts)
    if not any(isinstance(cache, RegionLayer) for cache in facts.caches):
        return gate
    site, layer = facts.site.at("self_attn"), facts.attention
    heads = _index_size(facts.config, "sparse_indexer_num_heads", _INDEX_HEADS)
    held = heads // layer.num_kv_heads * site.kv_heads(layer.num_kv_heads)
    return (
        *gate,
        *site.plain("sparse_indexer_qkz", facts.hidden_size, (held + 2) * _WIDTH),
        *site.plain("sparse_indexer_w", facts.hidden_size, held),
        *site.vector("ssmax_s", layer.num_attention_heads, FLOAT32),
        *site.vector("sparse_indexer_q_norm", _WIDTH),
        *Norm.WITH_BIAS.at(site, _WIDTH, "sparse_indexer_k_norm"),
    )


class _Rope:
    """The layers' tables, and those of the indexers' shorter rotation."""

    _own: Final = RopeTables(positions=_POSITIONS, adjust=step_rope)

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        return tuple(self.by_rotation(config, layers, itemsize).values())

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]:
        """The tables by what the engine tells them apart by."""
        found = dict(self._own.by_rotation(config, layers, itemsize))
        for layer in layers:
            if isinstance(layer, RegionLayer):
                rotation = self._index_rotation(config, layer.decoder_layer)
                (found[rotation, itemsize, False],) = table(rotation, itemsize, config.origin)
        return found

    @staticmethod
    def _index_rotation(config: HfConfig, index: int) -> Rotation:
        rotary = _index_size(config, "sparse_indexer_rope_dim", _INDEX_ROTARY)
        own = parameters_of(config) | {
            "rope_theta": listed_theta(config, index),
            "partial_rotary_factor": rotary / _WIDTH,
        }
        return Rotation(_WIDTH, _POSITIONS(config), freeze(own))


def _sparse(config: HfConfig, index: int) -> bool:
    """The layers that one of two keys lists, or all but the first."""
    listed = config.optional_list("moe_layer_list")
    if listed is None or config.has("moe_layers_enum"):
        return step_sparse(config, index)
    return index in listed


def _shared(config: HfConfig) -> int:
    stated = config.optional_integer("share_expert_dim", minimum=1)
    return SMALL(config) * config.positive("moe_top_k") if stated is None else stated


STEP5: Final[Mapping[str, Decoder]] = {
    "Step5ForCausalLM": Decoder(
        attention=Attention(beside=_beside),
        feed_forward=where(
            _sparse,
            Experts(
                path="moe",
                count=sized("moe_num_experts"),
                shared=_shared,
                shared_path="share_expert",
                router_fp32=always,
                correction=always,
            ),
            GATED,
        ),
        norms=_norms,
        rope=_Rope(),
        final_norm=Norm.NONE,
        extras=_last_norm,
    ),
}
