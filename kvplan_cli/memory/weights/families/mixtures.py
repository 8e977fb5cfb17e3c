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
)
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.layers import (
    Size,
    always,
    given,
    product,
    sized,
    where,
)
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm, QkNorm, layer_norms
from kvplan_cli.memory.weights.ranks import with_tokens
from kvplan_cli.memory.weights.rope import INTERLEAVED, RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32
from kvplan_cli.models.shape import AttentionLayer

SMALL: Final = sized("moe_intermediate_size")


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


def llama4_sparse(config: HfConfig, index: int) -> bool:
    """The layers that ``moe_layers`` lists, else every so manyth."""
    listed = config.optional_list("moe_layers")
    if listed:
        return index in listed
    step = config.integer("interleave_moe_layer_step")
    return step > 0 and (index + 1) % step == 0


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
LLAMA4_EXPERTS: Final = Experts(
    path="feed_forward",
    count=sized("num_local_experts"),
    intermediate=sized("intermediate_size"),
    shared=sized("intermediate_size"),
    whole_shared=with_tokens,
)
LLAMA4_DENSE: Final = Gated(path="feed_forward", intermediate=sized("intermediate_size_mlp"))
LLAMA4: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    feed_forward=where(llama4_sparse, LLAMA4_EXPERTS, LLAMA4_DENSE),
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


def _scaled(parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig) -> dict[str, Any]:
    """GPT-OSS scales its positions always: a config without the factors is half a config."""
    if not config.has("rope_scaling"):
        config.section("rope_parameters")
    return parameters


_GPT_OSS_ROPE: Final = RopeTables(itemsize=FLOAT32, adjust=_scaled)


def _minimax_rotary(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    rotary = config.optional_integer("rotary_dim", minimum=1)
    if rotary is not None:
        parameters.setdefault("partial_rotary_factor", rotary / layer.head_size)
    return parameters


EXAONE_MOE: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
    feed_forward=where(
        by_mlp_type,
        Experts(shared=times("num_shared_experts", SMALL), correction=always),
        Gated(),
    ),
)
_HY_EXPERT: Final = sized("expert_hidden_dim")

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
                shared=times("n_shared_experts", SMALL),
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
    "GraniteMoeForCausalLM": replace(GRANITE_MOE, everywhere=True),
    "GraniteMoeSharedForCausalLM": replace(GRANITE_MOE, everywhere=True),
    "GraniteMoeSWAForCausalLM": replace(GRANITE_MOE, everywhere=True),
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
                shared=times("moe_num_shared_experts", SMALL),
                router_fp32=always,
                correction=always,
            ),
            Gated(bias=given("use_bias")),
        ),
        rope=INTERLEAVED,
        tied=given("tie_word_embeddings", absent=True),
    ),
    "HYV3ForCausalLM": Decoder(
        attention=Attention(qk_norm=qk_norm(QkNorm.HEAD, given("qk_norm"))),
        feed_forward=where(
            after_dense("first_k_dense_replace"),
            Experts(
                intermediate=_HY_EXPERT,
                shared=product(_HY_EXPERT, lambda config: config.integer("num_shared_experts")),
                router_fp32=always,
                correction=always,
                tensorrt=always,
                shared_path="shared_mlp",
            ),
            Gated(),
        ),
        everywhere=True,
    ),
    "ExaoneMoEForCausalLM": EXAONE_MOE,
    "ExaoneMoeForCausalLM": EXAONE_MOE,
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
