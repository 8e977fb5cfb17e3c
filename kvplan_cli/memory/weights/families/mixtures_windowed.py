"""Mixtures of experts with windows, gates or sinks in their attention.

Source: vLLM 0.33.0 ``models/{mimo_v2,cohere2_moe,afmoe,beam,laguna,step3p5}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.llama_like import (
    ATTENTION_BIAS,
    HEAD_NORM,
    is_sliding,
)
from kvplan_cli.memory.weights.families.mixtures import (
    SMALL,
    after_dense,
    by_mlp_type,
    optional_size,
    times,
)
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.layers import LayerFacts, always, given, never, sized, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.shape import AttentionLayer


def _mimo_sparse(config: HfConfig, index: int) -> bool:
    return bool(config.list("moe_layer_freq")[index])


def step_sparse(config: HfConfig, index: int) -> bool:
    """The layers that ``moe_layers_enum`` lists, or all but the first."""
    listed = config.optional_text("moe_layers_enum")
    if listed is None:
        return index > 0
    return str(index) in [part.strip() for part in listed.split(",")]


def _mimo_theta(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    theta = "swa_rope_theta" if is_sliding(layer, config) else "rope_theta"
    factor = config.optional_number("partial_rotary_factor")
    return {
        "rope_type": "default",
        "rope_theta": config.optional_number(theta),
        "partial_rotary_factor": 1.0 if factor is None else factor,
    }


def _mimo_sinks(layer: AttentionLayer, config: HfConfig) -> bool:
    kind = "swa" if is_sliding(layer, config) else "full"
    return given(f"add_{kind}_attention_sink_bias")(config)


def listed_theta(config: HfConfig, index: int) -> Any:
    """The theta of layer ``index``, where the config lists them; else the one of all."""
    thetas = config.raw("rope_theta")
    return thetas[index] if isinstance(thetas, list) else thetas


def step_rope(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Thetas and rotary parts may be listed layer by layer, and scaling for some types alone."""
    section = config.optional_section("rope_parameters")
    if section is not None and section.has("full_attention"):
        parameters.setdefault("partial_rotary_factor", 1.0)
        return parameters
    parts = config.optional_list("partial_rotary_factors")
    scaled, types = config.optional_list("yarn_only_types"), config.optional_list("layer_types")
    unscaled = scaled and types and types[layer.decoder_layer] not in scaled
    own: dict[str, Any] = {"rope_type": "default"} if unscaled else dict(parameters)
    own["rope_theta"] = listed_theta(config, layer.decoder_layer)
    own["partial_rotary_factor"] = parts[layer.decoder_layer] if parts else 1.0
    return own


def step_gate(facts: LayerFacts) -> Tensors:
    """A gate for each head, where the config asks for it."""
    if not given("use_head_wise_attn_gate")(facts.config):
        return ()
    heads = facts.attention.num_attention_heads
    return facts.site.column("g_proj", facts.hidden_size, heads)


def _laguna_gate(facts: LayerFacts) -> Tensors:
    if not facts.config.raw("gating"):
        return ()
    heads = facts.attention.num_attention_heads
    return facts.site.column("g_proj", facts.hidden_size, heads)


def _laguna_sinks(layer: AttentionLayer, config: HfConfig) -> bool:
    return is_sliding(layer, config) and given("swa_attention_sink_enabled")(config)


def afmoe_gate(facts: LayerFacts) -> Tensors:
    layer = facts.attention
    rows = layer.num_attention_heads * layer.head_size
    return facts.site.column("gate_proj", facts.hidden_size, rows)


def _beam_gate(facts: LayerFacts) -> Tensors:
    return facts.site.vector("gate_bias", facts.site.share(facts.attention.num_attention_heads))


LAGUNA: Final = Decoder(
    attention=Attention(
        qkv_bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        qk_norm=HEAD_NORM,
        beside=_laguna_gate,
        sinks=_laguna_sinks,
    ),
    feed_forward=where(
        by_mlp_type,
        Experts(
            shared=optional_size("shared_expert_intermediate_size"),
            correction=always,
            merged_shared=never,
        ),
        Gated(merged=False),
    ),
    rope=RopeTables(by_type=True),
)
WINDOWED_MIXTURES: Final[Mapping[str, Decoder]] = {
    "MiMoV2FlashForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, sinks=_mimo_sinks),
        feed_forward=where(
            _mimo_sparse,
            Experts(
                count=sized("n_routed_experts"),
                shared=times("n_shared_experts", SMALL),
                router_fp32=always,
                correction=always,
            ),
            Gated(),
        ),
        rope=RopeTables(adjust=_mimo_theta),
    ),
    "Cohere2MoeForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
        feed_forward=where(
            by_mlp_type,
            Experts(
                intermediate=sized("intermediate_size"),
                shared=times("num_shared_experts", sized("intermediate_size")),
            ),
            Gated(intermediate=sized("prefix_dense_intermediate_size", "intermediate_size")),
        ),
        norms=layer_norms(1),
        rope=RopeTables(rotates=is_sliding),
        tied=always,
        everywhere=True,
    ),
    "AfmoeForCausalLM": Decoder(
        attention=Attention(qk_norm=HEAD_NORM, beside=afmoe_gate),
        feed_forward=where(
            after_dense("num_dense_layers"),
            Experts(
                shared=times("num_shared_experts", SMALL),
                router_fp32=always,
                correction=always,
            ),
            Gated(),
        ),
        norms=layer_norms(4),
        rope=RopeTables(rotates=is_sliding),
    ),
    "BeamForCausalLM": Decoder(
        attention=Attention(
            qk_norm=HEAD_NORM,
            gate=lambda layer: layer.num_attention_heads * layer.head_size,
            beside=_beam_gate,
        ),
        feed_forward=where(by_mlp_type, Experts(router_fp32=always, correction=always), Gated()),
        norms=layer_norms(4),
        rope=RopeTables(itemsize=FLOAT32, rotates=is_sliding, by_type=True),
    ),
    "LagunaForCausalLM": LAGUNA,
    "Step3p5ForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM, beside=step_gate),
        feed_forward=where(
            step_sparse,
            Experts(
                path="moe",
                count=sized("moe_num_experts"),
                shared=sized("share_expert_dim"),
                router_fp32=given("need_fp32_gate"),
                correction=given("use_moe_router_bias"),
            ),
            Gated(),
        ),
        rope=RopeTables(by_type=True, adjust=step_rope),
    ),
}
