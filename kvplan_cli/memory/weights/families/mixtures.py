"""Mixtures of experts on a Llama-like frame.

Source: vLLM 0.33.0 ``model_executor/models/<module>.py`` of each architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.llama_like import (
    ATTENTION_BIAS,
    GRANITE_ROPE,
    HALF_ROPE,
    HEAD_NORM,
    granite_sinks,
    is_sliding,
)
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.layers import (
    LayerFacts,
    Size,
    always,
    given,
    product,
    sized,
    where,
)
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm, QkNorm, layer_norms
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.shape import AttentionLayer

_SMALL: Final = sized("moe_intermediate_size")


def optional_size(key: str) -> Size:
    """A size that may be missing, null or zero: there is no such part then."""
    return lambda config: config.optional_integer(key, minimum=0) or 0


def times(key: str, inner: Size) -> Size:
    """So many shared experts of one size, merged; none where the key is missing."""
    return lambda config: (config.optional_integer(key, minimum=0) or 0) * inner(config)


def after_dense(key: str) -> Any:
    """The layers behind the first dense ones are sparse."""
    return lambda config, index: index >= config.integer(key)


def by_mlp_type(config: HfConfig, index: int) -> bool:
    """``mlp_layer_types`` names each layer."""
    return bool(config.list("mlp_layer_types")[index] == "sparse")


def qwen_sparse(config: HfConfig, index: int) -> bool:
    """Every ``decoder_sparse_step``-th layer, but for those that are listed as dense."""
    listed = config.optional_list("mlp_only_layers") or ()
    step = config.optional_integer("decoder_sparse_step", minimum=1) or 1
    return index not in listed and (index + 1) % step == 0


def _ernie_sparse(config: HfConfig, index: int) -> bool:
    start = config.optional_integer("moe_layer_start_index") or 0
    end = config.optional_integer("moe_layer_end_index")
    step = config.optional_integer("moe_layer_interval", minimum=1) or 1
    inside = start <= index and (end is None or end == -1 or index <= end)
    return inside and (index + 1) % step == 0


def _llama4_sparse(config: HfConfig, index: int) -> bool:
    listed = config.optional_list("moe_layers")
    if listed:
        return index in listed
    step = config.integer("interleave_moe_layer_step")
    return step > 0 and (index + 1) % step == 0


def _mimo_sparse(config: HfConfig, index: int) -> bool:
    return bool(config.list("moe_layer_freq")[index])


def _step_sparse(config: HfConfig, index: int) -> bool:
    listed = config.optional_text("moe_layers_enum")
    if listed is None:
        return index > 0
    return str(index) in [part.strip() for part in listed.split(",")]


def _llama4_rotates(layer: AttentionLayer, config: HfConfig) -> bool:
    listed = config.optional_list("no_rope_layers")
    if listed:
        return bool(listed[layer.decoder_layer])
    step = config.optional_integer("no_rope_layer_interval", minimum=1) or 4
    return (layer.decoder_layer + 1) % step != 0


QWEN3_MOE: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
    feed_forward=where(
        qwen_sparse, Experts(count=sized("num_experts", "num_local_experts")), Gated()
    ),
    everywhere=True,
)
_MIXTRAL_EXPERTS: Final = Experts(
    path="block_sparse_moe",
    count=sized("num_local_experts"),
    intermediate=sized("intermediate_size"),
)
LLAMA4: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    feed_forward=where(
        _llama4_sparse,
        Experts(
            path="feed_forward",
            count=sized("num_local_experts"),
            intermediate=sized("intermediate_size"),
            shared=sized("intermediate_size"),
        ),
        Gated(path="feed_forward", intermediate=sized("intermediate_size_mlp")),
    ),
    rope=RopeTables(rotates=_llama4_rotates),
)
_GRANITE_MOE_ATTENTION: Final = Attention(
    qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, sinks=granite_sinks
)
GRANITE_MOE: Final = Decoder(
    attention=_GRANITE_MOE_ATTENTION,
    feed_forward=Experts(
        path="block_sparse_moe",
        count=sized("num_local_experts"),
        intermediate=sized("intermediate_size"),
        shared=optional_size("shared_intermediate_size"),
    ),
    rope=GRANITE_ROPE,
)
_GPT_OSS_ROPE: Final = RopeTables(itemsize=FLOAT32)


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


def _minimax_rotary(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    rotary = config.optional_integer("rotary_dim", minimum=1)
    if rotary is not None:
        parameters.setdefault("partial_rotary_factor", rotary / layer.head_size)
    return parameters


def _step_rope(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Thetas and rotary parts may be listed layer by layer."""
    section = config.optional_section("rope_parameters")
    if section is not None and section.has("full_attention"):
        parameters.setdefault("partial_rotary_factor", 1.0)
        return parameters
    thetas, parts = config.raw("rope_theta"), config.optional_list("partial_rotary_factors")
    own = dict(parameters)
    own["rope_theta"] = thetas[layer.decoder_layer] if isinstance(thetas, list) else thetas
    own["partial_rotary_factor"] = parts[layer.decoder_layer] if parts else 1.0
    return own


def _step_gate(facts: LayerFacts) -> Tensors:
    if not given("use_head_wise_attn_gate")(facts.config):
        return ()
    heads = facts.attention.num_attention_heads
    return facts.site.column("g_proj", facts.hidden_size, heads)


def _laguna_gate(facts: LayerFacts) -> Tensors:
    if not facts.config.raw("gating"):
        return ()
    heads = facts.attention.num_attention_heads
    return facts.site.column("g_proj", facts.hidden_size, heads)


def _afmoe_gate(facts: LayerFacts) -> Tensors:
    layer = facts.attention
    rows = layer.num_attention_heads * layer.head_size
    return facts.site.column("gate_proj", facts.hidden_size, rows)


def _beam_gate(facts: LayerFacts) -> Tensors:
    return facts.site.vector("gate_bias", facts.site.share(facts.attention.num_attention_heads))


MIXTURES: Final[Mapping[str, Decoder]] = {
    "MixtralForCausalLM": Decoder(
        attention=Attention(), feed_forward=_MIXTRAL_EXPERTS, everywhere=True
    ),
    "Qwen3MoeForCausalLM": QWEN3_MOE,
    "Qwen2MoeForCausalLM": Decoder(
        attention=Attention(qkv_bias=given("qkv_bias", absent=True)),
        feed_forward=where(
            qwen_sparse,
            Experts(shared=optional_size("shared_expert_intermediate_size"), shared_gate=True),
            Gated(),
        ),
        everywhere=True,
    ),
    "GptOssForCausalLM": Decoder(
        attention=Attention(
            path="attn", qkv_bias=always, output_bias=always, sinks=lambda layer, config: True
        ),
        feed_forward=Experts(
            count=sized("num_local_experts"),
            intermediate=sized("intermediate_size"),
            router_bias=True,
            bias=True,
        ),
        rope=_GPT_OSS_ROPE,
        everywhere=True,
    ),
    "Glm4MoeForCausalLM": Decoder(
        attention=Attention(
            qkv_bias=ATTENTION_BIAS, qk_norm=qk_norm(QkNorm.HEAD, given("use_qk_norm"))
        ),
        feed_forward=where(
            after_dense("first_k_dense_replace"),
            Experts(
                count=sized("n_routed_experts"),
                shared=times("n_shared_experts", _SMALL),
                router_fp32=always,
                correction=always,
            ),
            Gated(),
        ),
        rope=HALF_ROPE,
    ),
    "MiniMaxM2ForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=qk_norm(QkNorm.SHARD, always)),
        feed_forward=Experts(
            path="block_sparse_moe",
            count=sized("num_local_experts"),
            intermediate=sized("intermediate_size"),
            router_fp32=always,
            correction=given("use_routing_bias"),
        ),
        rope=RopeTables(adjust=_minimax_rotary),
    ),
    "Llama4ForCausalLM": LLAMA4,
    "DbrxForCausalLM": Decoder(
        attention=Attention(),
        feed_forward=Experts(
            path="ffn",
            count=lambda config: config.section("ffn_config").positive("moe_num_experts"),
            intermediate=lambda config: config.section("ffn_config").positive("ffn_hidden_size"),
        ),
        rope=RopeTables(adjust=lambda parameters, layer, config: {"rope_type": "default"}),
        everywhere=True,
    ),
    "GraniteMoeForCausalLM": GRANITE_MOE,
    "GraniteMoeSharedForCausalLM": GRANITE_MOE,
    "GraniteMoeSWAForCausalLM": GRANITE_MOE,
    "OlmoeForCausalLM": Decoder(
        attention=Attention(qk_norm=qk_norm(QkNorm.WHOLE, always)),
        feed_forward=Experts(intermediate=sized("intermediate_size")),
        everywhere=True,
    ),
    "PhiMoEForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
        feed_forward=_MIXTRAL_EXPERTS,
        norms=layer_norms(2, Norm.WITH_BIAS),
        final_norm=Norm.WITH_BIAS,
        head_bias=always,
        everywhere=True,
    ),
    "Ernie4_5_MoeForCausalLM": Decoder(
        attention=Attention(qkv_bias=given("use_bias"), output_bias=given("use_bias")),
        feed_forward=where(
            _ernie_sparse,
            Experts(
                count=sized("moe_num_experts"),
                shared=times("moe_num_shared_experts", _SMALL),
                router_fp32=always,
                correction=always,
            ),
            Gated(bias=given("use_bias")),
        ),
        tied=given("tie_word_embeddings", absent=True),
    ),
    "ExaoneMoeForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
        feed_forward=where(
            by_mlp_type,
            Experts(shared=times("num_shared_experts", _SMALL), correction=always),
            Gated(),
        ),
    ),
    "MiMoV2FlashForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, sinks=_mimo_sinks),
        feed_forward=where(
            _mimo_sparse,
            Experts(
                count=sized("n_routed_experts"),
                shared=times("n_shared_experts", _SMALL),
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
        attention=Attention(qk_norm=HEAD_NORM, beside=_afmoe_gate),
        feed_forward=where(
            after_dense("num_dense_layers"),
            Experts(
                shared=times("num_shared_experts", _SMALL),
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
    "LagunaForCausalLM": Decoder(
        attention=Attention(
            qkv_bias=ATTENTION_BIAS,
            output_bias=ATTENTION_BIAS,
            qk_norm=HEAD_NORM,
            beside=_laguna_gate,
        ),
        feed_forward=where(
            by_mlp_type,
            Experts(
                shared=optional_size("shared_expert_intermediate_size"),
                correction=always,
                merged_shared=lambda config: False,
            ),
            Gated(merged=False),
        ),
        rope=RopeTables(by_type=True),
    ),
    "Step3p5ForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM, beside=_step_gate),
        feed_forward=where(
            _step_sparse,
            Experts(
                path="moe",
                count=sized("moe_num_experts"),
                shared=sized("share_expert_dim"),
                router_fp32=given("need_fp32_gate"),
                correction=given("use_moe_router_bias"),
            ),
            Gated(),
        ),
        rope=RopeTables(by_type=True, adjust=_step_rope),
    ),
}
QWEN3_VL_MOE: Final = replace(QWEN3_MOE, rope=RopeTables(positions_factor=1))
ARIA: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    feed_forward=Experts(
        count=sized("moe_num_experts"),
        intermediate=sized("intermediate_size"),
        shared=product(sized("intermediate_size"), sized("moe_num_shared_experts")),
    ),
)
