"""Ling's mixtures of experts and those built on their frame; Pangu's.

Source: vLLM 0.33.0 ``models/{bailing_moe,sarvam,param2moe,openpangu}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK, EXPERTS, sparse_layer
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, LLAMA
from kvplan_cli.memory.weights.families.mixtures import SMALL, after_dense, times
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.latent import LatentRope
from kvplan_cli.memory.weights.layers import (
    LayerFacts,
    always,
    either,
    given,
    sized,
    where,
)
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm, QkNorm, layer_norms
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import AttentionLayer, CacheLayer

_USES_BIAS: Final = given("use_bias")


def shared_each(config: HfConfig) -> int:
    """Inner size of the shared experts together; the key gives one's."""
    one = sized("moe_shared_expert_intermediate_size", "moe_intermediate_size")(config)
    return one * (config.optional_integer("num_shared_experts", minimum=0) or 0)


def _shared_together(config: HfConfig) -> int:
    """Inner size of the shared experts together; the key gives all of them."""
    whole = config.optional_integer("moe_shared_expert_intermediate_size", minimum=1)
    count = config.optional_integer("num_shared_experts", minimum=0)
    count = 1 if count is None else count
    if whole is not None:
        return whole if count else 0
    return count * SMALL(config)


def _fp32_router(config: HfConfig) -> bool:
    return config.optional_text("router_dtype") == "fp32"


def _rotary(parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig) -> dict[str, Any]:
    rotary = config.optional_integer("rotary_dim", minimum=1)
    if rotary is not None:
        parameters["partial_rotary_factor"] = rotary / layer.head_size
    return parameters


_BAILING_EXPERTS: Final = Experts(
    shared=shared_each,
    router_fp32=_fp32_router,
    correction=given("moe_router_enable_expert_bias"),
)
_BAILING: Final = Decoder(
    attention=Attention(
        path="attention",
        qkv_bias=either(_USES_BIAS, given("use_qkv_bias")),
        output_bias=_USES_BIAS,
        qk_norm=qk_norm(QkNorm.HEAD, given("use_qk_norm")),
    ),
    feed_forward=where(
        after_dense("first_k_dense_replace"), _BAILING_EXPERTS, Gated(bias=_USES_BIAS)
    ),
    rope=RopeTables(adjust=_rotary),
)
_PARAM2: Final = replace(
    _BAILING,
    attention=Attention(
        path="attention",
        qkv_bias=given("use_qkv_bias"),
        output_bias=_USES_BIAS,
        qk_norm=qk_norm(QkNorm.HEAD, given("use_qk_norm")),
    ),
    feed_forward=where(
        after_dense("first_k_dense_replace"),
        Experts(
            shared=_shared_together,
            router_fp32=always,
            correction=given("moe_router_enable_expert_bias", absent=True),
        ),
        GATED,
    ),
)
_SARVAM_MLA: Final = replace(
    DEEPSEEK,
    rope=LatentRope(plain=True),
    feed_forward=where(
        sparse_layer,
        Experts(
            shared=times("num_shared_experts", SMALL),
            correction=given("moe_router_enable_expert_bias", absent=True),
            tensorrt=always,
        ),
        GATED,
    ),
)


def _pangu_norms(facts: LayerFacts) -> Tensors:
    return layer_norms(4 if given("sandwich_norm")(facts.config) else 2)(facts)


_PANGU_MLP: Final = Gated(bias=given("mlp_bias"))
_PANGU_SPARSE: Final = where(
    sparse_layer,
    replace(EXPERTS, correction=given("router_enable_expert_bias")),
    _PANGU_MLP,
)


def _has_sinks(config: HfConfig) -> bool:
    return bool(config.optional_integer("param_sink_number", minimum=0))


def _sinks(facts: LayerFacts) -> Tensors:
    """Keys and values that every request attends to, and a norm of the keys."""
    if not _has_sinks(facts.config):
        return ()
    layer, site = facts.attention, facts.site.at("self_attn")
    held = facts.config.positive("param_sink_number") * site.kv_heads(layer.num_kv_heads)
    return (
        *site.vector("param_sink_key", held * layer.head_size),
        *site.vector("param_sink_value", held * layer.head_size_v),
        *Norm.ONE.at(site, layer.head_size, "k_layernorm"),
    )


def _pangu_bias(config: HfConfig) -> bool:
    own = config.optional_boolean("qkv_bias")
    return _ANY_BIAS(config) if own is None else own


def _pangu_rope(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """Beside sinks only a part of each head turns."""
    head_size = sized("qk_rope_dim") if _has_sinks(config) else None
    return RopeTables(head_size=head_size)(config, layers, itemsize)


_ANY_BIAS: Final = either(ATTENTION_BIAS, given("bias"))
_PANGU_PRO: Final = Decoder(
    attention=Attention(qkv_bias=_pangu_bias, output_bias=_ANY_BIAS, beside=_sinks),
    feed_forward=_PANGU_SPARSE,
    norms=_pangu_norms,
    rope=_pangu_rope,
)

BAILINGS: Final[Mapping[str, Decoder]] = {
    "BailingMoeForCausalLM": _BAILING,
    "BailingMoeV2ForCausalLM": _BAILING,
    "DeepseekForCausalLM": Decoder(feed_forward=where(sparse_layer, EXPERTS, GATED)),
    "DeepseekV3BidirectionalModel": DEEPSEEK,
    "MistralLarge3ForCausalLM": DEEPSEEK,
    "PanguEmbeddedForCausalLM": replace(LLAMA, norms=_pangu_norms),
    "PanguProMoEV2ForCausalLM": _PANGU_PRO,
    "PanguUltraMoEForCausalLM": replace(DEEPSEEK, feed_forward=_PANGU_SPARSE, norms=_pangu_norms),
    "Param2MoEForCausalLM": _PARAM2,
    "SarvamMLAForCausalLM": _SARVAM_MLA,
    "SarvamMoEForCausalLM": _BAILING,
}
