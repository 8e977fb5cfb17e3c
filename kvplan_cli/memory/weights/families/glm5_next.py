"""GLM 5 Next: delta attention beside latent attention that reads pools of chosen tokens.

Source: vLLM 0.33.0 ``vllm/models/glm5next/common/{model,attention,kda}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.deepseek import EXPERTS
from kvplan_cli.memory.weights.families.deepseek_v4 import stream_mixers
from kvplan_cli.memory.weights.families.mixtures import SMALL, by_mlp_type
from kvplan_cli.memory.weights.families.states import by_cache
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.latent import LatentAttention, LatentRope
from kvplan_cli.memory.weights.layers import LayerFacts, never, where
from kvplan_cli.memory.weights.states import missing_state
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.recurrent import DeltaAttentionState
from kvplan_cli.models.shape import CacheLayer

_BFLOAT16: Final = 2


def _delta_attention(facts: LayerFacts) -> Tensors:
    """Delta attention whose two gates go through the width of a head. Never quantized."""
    state, hidden = facts.state, facts.hidden_size
    if not isinstance(state, DeltaAttentionState):
        raise missing_state(facts, "delta")
    site, size = facts.site.at("self_attn").unquantized(), state.head_dim
    wide = state.num_heads * size
    held, heads = site.share(wide), site.share(state.num_heads)
    return (
        *site.replicated("in_proj_qkvbfg_a", hidden, (held, held, held, heads, size, size)),
        *site.column("f_b_proj", size, wide),
        *site.column("g_b_proj", size, wide),
        *site.vector("conv1d.weight", held * state.conv_kernel, FLOAT32) * 3,
        *site.row("o_proj", wide, hidden),
        *site.vector("dt_bias", held, FLOAT32),
        *site.vector("A_log", heads, FLOAT32),
        *site.vector("o_norm", size),
    )


def _pools(facts: LayerFacts) -> Tensors:
    """What makes one index key of a pool of tokens."""
    layer, config, site = facts.latent, facts.config, facts.site
    if layer is None or not layer.is_index_group_leader:
        return ()
    width = config.positive("index_head_dim")
    return (
        *site.vector("compress_ape", config.positive("index_kpool") * width, FLOAT32),
        *site.vector("compress_gate", width * facts.hidden_size, _BFLOAT16),
    )


_LATENT: Final = LatentAttention(beside=_pools)


def _latent_attention(facts: LayerFacts) -> Tensors:
    """Never quantized either."""
    return _LATENT(replace(facts, site=facts.site.unquantized()))


class _Rope:
    """The indexers' table, and the latent vectors' own where these turn at all."""

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        return tuple(self.by_rotation(config, layers, itemsize).values())

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]:
        """The tables by what the engine tells them apart by; of no width, none."""
        if not config.integer("qk_rope_head_dim"):
            return {}
        tables = LatentRope(indexers=True).by_rotation(config, layers, itemsize)
        if not config.boolean("mla_use_nope"):
            return tables
        indexers = list(tables.items())[-1:] if config.has("index_topk") else []
        return dict(indexers)


def _mixers(facts: LayerFacts) -> Tensors:
    return stream_mixers(facts) if facts.config.boolean("mhc") else ()


GLM5_NEXT: Final = Decoder(
    attention=by_cache(_delta_attention, _latent_attention),
    feed_forward=where(
        by_mlp_type,
        replace(EXPERTS, shared=lambda config: config.integer("n_shared_experts") * SMALL(config)),
        GATED,
    ),
    beside=_mixers,
    rope=_Rope(),
    tied=never,
)
