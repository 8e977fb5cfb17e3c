"""Kimi Linear and the language model of Kimi K3: delta attention beside latent attention.

Source: vLLM 0.33.0 ``vllm/models/kimi_k3/nvidia/{model,mla,kda}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.delta import kimi_delta
from kvplan_cli.memory.weights.families.mixtures import SMALL, optional_size, times
from kvplan_cli.memory.weights.families.states import by_cache
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.latent import LatentAttention
from kvplan_cli.memory.weights.layers import LayerFacts, always, size, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.ranks import Site, with_tokens_unstaged
from kvplan_cli.memory.weights.rope import no_rope
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors


def _sparse(config: HfConfig, index: int) -> bool:
    step = config.optional_integer("moe_layer_freq", minimum=1) or 1
    return (
        config.has("num_experts")
        and index >= config.integer("first_k_dense_replace")
        and index % step == 0
    )


# The kernels of its experts want so much of each on a rank.
_LEAST_SHARD: Final = 256


def _gate(facts: LayerFacts) -> Tensors:
    """One more factor of the cache, and a gate of the output where the config has one."""
    layer, config = facts.latent, facts.config
    one = facts.site.vector("_one_scale", 1, FLOAT32)
    if layer is None or not config.optional_boolean("mla_use_output_gate"):
        return one
    rows = layer.num_attention_heads * layer.v_head_dim
    return facts.site.column("g_proj", facts.hidden_size, rows) + one


def _residuals(facts: LayerFacts) -> Tensors:
    """Attention over the residuals of earlier blocks: two norms and two rows a layer."""
    if not facts.config.has("attn_res_block_size"):
        return ()
    return facts.site.vector("res", facts.hidden_size) * 4


def _last_residual(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    if not (stage.is_last and config.has("attn_res_block_size")):
        return ()
    return site.vector("output_attn_res", size(config, "hidden_size")) * 2


def _latent_norm(facts: LayerFacts) -> Tensors:
    config = facts.config
    if not (_sparse(config, facts.index) and config.optional_boolean("latent_moe_use_norm")):
        return ()
    return facts.site.vector("routed_expert_norm", config.positive("routed_expert_hidden_size"))


def _beside(facts: LayerFacts) -> Tensors:
    return _residuals(facts) + _latent_norm(facts)


KIMI_LINEAR: Final = Decoder(
    attention=by_cache(kimi_delta, LatentAttention(beside=_gate)),
    feed_forward=where(
        _sparse,
        Experts(
            path="block_sparse_moe",
            shared=times("num_shared_experts", SMALL),
            correction=always,
            latent=optional_size("routed_expert_hidden_size"),
            least_shard=_LEAST_SHARD,
            whole_shared=with_tokens_unstaged,
        ),
        Gated(whole=with_tokens_unstaged),
    ),
    beside=_beside,
    rope=no_rope,
    extras=_last_residual,
)
KIMIS: Final[Mapping[str, Decoder]] = {"KimiLinearForCausalLM": KIMI_LINEAR}
