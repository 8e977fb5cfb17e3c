"""Models that keep recurrent states, alone or beside attention.

Source: vLLM 0.33.0 ``models/{mamba,mamba2,jamba,falcon_h1,granitemoehybrid,lfm2,lfm2_moe,
qwen3_next,qwen3_5,olmo_hybrid}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.delta import GatedDelta
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM
from kvplan_cli.memory.weights.families.mixtures import SMALL, optional_size, qwen_sparse
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.layers import (
    LayerFacts,
    Part,
    always,
    given,
    nothing,
    sized,
    together,
    where,
)
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import QkNorm, layer_norms
from kvplan_cli.memory.weights.ranks import with_tokens
from kvplan_cli.memory.weights.rope import RopeTables, no_rope
from kvplan_cli.memory.weights.states import Mamba1, Mamba2, ShortConv
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import AttentionLayer, CacheLayer

_TIED: Final = given("tie_word_embeddings", absent=True)


def by_cache(state: Part, attention: Part, otherwise: Part = nothing) -> Part:
    """One part where the layer keeps a state, another where it attends."""

    def tensors(facts: LayerFacts) -> Tensors:
        if facts.state is not None:
            return state(facts)
        attends = bool(facts.attentions) or facts.latent is not None
        return (attention if attends else otherwise)(facts)

    return tensors


def _jamba_sparse(config: HfConfig, index: int) -> bool:
    period = config.positive("expert_layer_period")
    offset = config.integer("expert_layer_offset")
    return config.positive("num_experts") > 1 and index % period == offset


JAMBA: Final = Decoder(
    attention=by_cache(
        Mamba1(
            path="mamba",
            rank=sized("mamba_dt_rank"),
            conv_bias=given("mamba_conv_bias", absent=True),
            bias=given("mamba_proj_bias"),
            norms=True,
        ),
        Attention(path=""),
    ),
    feed_forward=where(
        _jamba_sparse,
        Experts(path="feed_forward", intermediate=sized("intermediate_size")),
        Gated(path="feed_forward"),
    ),
    rope=no_rope,
    everywhere=True,
)
_MAMBA1: Final = Mamba1(
    path="mixer",
    rank=sized("time_step_rank"),
    conv_bias=given("use_conv_bias", absent=True),
    bias=given("use_bias"),
)
MAMBA: Final = Decoder(
    attention=_MAMBA1,
    feed_forward=nothing,
    norms=layer_norms(1),
    rope=no_rope,
    tied=_TIED,
    everywhere=True,
)
MAMBA2: Final = Decoder(
    attention=Mamba2(
        path="mixer", conv_bias=given("use_conv_bias", absent=True), bias=given("use_bias")
    ),
    feed_forward=nothing,
    norms=layer_norms(1),
    rope=no_rope,
    everywhere=True,
)


def _granite_rope(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    if config.optional_text("position_embedding_type") != "rope":
        return ()
    return RopeTables()(config, layers, itemsize)


def _granite_feed_forward(facts: LayerFacts) -> Tensors:
    """Experts, a dense layer that all tokens pass, or both."""
    config = facts.config
    experts = Experts(
        path="block_sparse_moe",
        count=sized("num_local_experts"),
        intermediate=sized("intermediate_size"),
    )
    shared = config.optional_integer("shared_intermediate_size", minimum=0)
    count = config.optional_integer("num_local_experts", minimum=0)
    dense = Gated(path="shared_mlp", intermediate=sized("shared_intermediate_size"))
    return (
        *(experts(facts) if count else ()),
        *(dense(facts) if shared else ()),
    )


GRANITE: Final = Decoder(
    attention=by_cache(
        Mamba2(
            path="mamba",
            conv_bias=given("mamba_conv_bias", absent=True),
            bias=given("mamba_proj_bias"),
        ),
        Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    ),
    feed_forward=_granite_feed_forward,
    rope=_granite_rope,
    everywhere=True,
)
FALCON_H1: Final = Decoder(
    attention=together(
        Attention(),
        Mamba2(
            path="mamba.mamba",
            conv_bias=given("mamba_conv_bias", absent=True),
            bias=given("mamba_proj_bias"),
            norm=given("mamba_rms_norm"),
            scaled=True,
        ),
    ),
    feed_forward=Gated(path="feed_forward"),
)
_LFM2_MULTIPLE: Final = 256


def _lfm2_size(config: HfConfig) -> int:
    """Two thirds of the stated size, rounded up, where the config says so."""
    size = config.positive("intermediate_size")
    if config.optional_boolean("block_auto_adjust_ff_dim") is False:
        return size
    size = int(2 * size / 3)
    factor = config.optional_number("block_ffn_dim_multiplier")
    if factor is not None:
        size = int(factor * size)
    multiple = config.optional_integer("block_multiple_of", minimum=1) or _LFM2_MULTIPLE
    return -(-size // multiple) * multiple


_LFM2_MIXER: Final = by_cache(
    ShortConv(path="short_conv", bias=given("conv_bias")), Attention(qk_norm=HEAD_NORM)
)
LFM2: Final = Decoder(
    attention=_LFM2_MIXER,
    feed_forward=Gated(path="feed_forward", intermediate=_lfm2_size),
    tied=_TIED,
    embedding_everywhere=True,
)
LFM2_MOE: Final = Decoder(
    attention=_LFM2_MIXER,
    feed_forward=where(
        lambda config, index: index >= config.integer("num_dense_layers"),
        Experts(path="feed_forward", correction=given("use_expert_bias", absent=True)),
        Gated(path="feed_forward"),
    ),
    tied=_TIED,
    embedding_everywhere=True,
)


def quarter_rotated(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Qwen's hybrids rotate a quarter of each head where the config does not say."""
    return {"partial_rotary_factor": 0.25, **parameters}


def _has_experts(config: HfConfig, index: int) -> bool:
    return bool(config.optional_integer("num_experts"))


def _qwen_sparse(config: HfConfig, index: int) -> bool:
    return _has_experts(config, index) and qwen_sparse(config, index)


QWEN_ATTENTION: Final = Attention(
    qkv_bias=ATTENTION_BIAS,
    qk_norm=HEAD_NORM,
    doubled=given("attn_output_gate", absent=True),
)
_QWEN_MIXER: Final = by_cache(GatedDelta(), QWEN_ATTENTION)
_QWEN_ROPE: Final = RopeTables(adjust=quarter_rotated, positions_factor=1)
QWEN_EXPERTS: Final = Experts(
    intermediate=SMALL,
    shared=optional_size("shared_expert_intermediate_size"),
    whole_shared=with_tokens,
    shared_gate=True,
    shared_path="shared_expert",
)
QWEN3_NEXT: Final = Decoder(
    attention=_QWEN_MIXER,
    feed_forward=where(_qwen_sparse, QWEN_EXPERTS, GATED),
    rope=_QWEN_ROPE,
    everywhere=True,
    norm_everywhere=False,
)
# The class of a mixture has experts on each layer, whatever the config lists as dense.
QWEN3_5: Final = replace(
    QWEN3_NEXT,
    feed_forward=where(_has_experts, QWEN_EXPERTS, GATED),
    everywhere=False,
    embedding_everywhere=True,
)


def _olmo_rope(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    section = config.optional_section("rope_parameters")
    if section is not None and not section.has("rope_theta"):
        return ()
    return RopeTables()(config, layers, itemsize)


OLMO_HYBRID: Final = Decoder(
    attention=by_cache(
        GatedDelta(separate=True),
        Attention(
            qkv_bias=ATTENTION_BIAS,
            output_bias=ATTENTION_BIAS,
            qk_norm=qk_norm(QkNorm.WHOLE, always),
        ),
    ),
    rope=_olmo_rope,
    everywhere=True,
)

STATEFUL: Final[Mapping[str, Decoder]] = {
    "FalconH1ForCausalLM": FALCON_H1,
    "FalconMambaForCausalLM": MAMBA,
    "GraniteMoeHybridForCausalLM": GRANITE,
    "JambaForCausalLM": JAMBA,
    "Lfm2ForCausalLM": LFM2,
    "Lfm2MoeForCausalLM": LFM2_MOE,
    "Mamba2ForCausalLM": MAMBA2,
    "MambaForCausalLM": MAMBA,
    "OlmoHybridForCausalLM": OLMO_HYBRID,
    "Qwen3NextForCausalLM": QWEN3_NEXT,
    "Qwen3_5ForCausalLM": QWEN3_5,
    "Qwen3_5MoeForCausalLM": QWEN3_5,
}
