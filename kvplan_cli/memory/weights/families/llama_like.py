"""Llama and the dense decoders that differ from it by a flag or a norm.

Source: vLLM 0.33.0 ``model_executor/models/<module>.py`` of each architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.feed_forward import Gated, Plain
from kvplan_cli.memory.weights.layers import (
    Flag,
    LayerFacts,
    always,
    either,
    given,
    never,
    nothing,
    sized,
)
from kvplan_cli.memory.weights.norms import Norm, QkNorm, layer_norms
from kvplan_cli.memory.weights.rope import INTERLEAVED, RopeTables
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import AttentionKind, AttentionLayer

ATTENTION_BIAS: Final[Flag] = given("attention_bias")
_ANY_BIAS: Final[Flag] = either(ATTENTION_BIAS, given("bias"))
HEAD_NORM: Final = qk_norm(QkNorm.HEAD, always)


def _llama_qkv_bias(config: HfConfig) -> bool:
    """``qkv_bias`` decides where it is given (InternLM3), else the attention's flag."""
    own = config.optional_boolean("qkv_bias")
    return _ANY_BIAS(config) if own is None else own


def is_sliding(layer: AttentionLayer, config: HfConfig) -> bool:
    return layer.kind is AttentionKind.SLIDING


LLAMA_ATTENTION: Final = Attention(qkv_bias=_llama_qkv_bias, output_bias=_ANY_BIAS)
LLAMA: Final = Decoder(
    attention=LLAMA_ATTENTION,
    feed_forward=Gated(bias=given("mlp_bias")),
)
INTERNLM2: Final = replace(LLAMA, everywhere=True)
QWEN2: Final = Decoder(attention=Attention(qkv_bias=given("qkv_bias", absent=True)))
QWEN3: Final = Decoder(attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM))
QWEN3_VL: Final = replace(QWEN3, rope=RopeTables(positions_factor=1))
ERNIE: Final = Decoder(
    attention=Attention(qkv_bias=given("use_bias"), output_bias=given("use_bias")),
    feed_forward=Gated(bias=given("use_bias")),
    rope=INTERLEAVED,
    tied=given("tie_word_embeddings", absent=True),
)


def _granite_theta(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    thetas = config.optional_list("layer_rope_theta")
    if thetas is not None:
        parameters["rope_theta"] = thetas[layer.decoder_layer]
    return parameters


def _granite_rotates(layer: AttentionLayer, config: HfConfig) -> bool:
    thetas = config.optional_list("layer_rope_theta")
    return thetas is None or bool(thetas[layer.decoder_layer])


def granite_sinks(layer: AttentionLayer, config: HfConfig) -> bool:
    """Sinks stand in every layer of a model that declares layer types."""
    own = config.optional_boolean("attention_sinks")
    return config.has("layer_types") if own is None else own


def _own_sinks(layer: AttentionLayer, config: HfConfig) -> bool:
    """Sinks stand in every layer unless the config says otherwise: its class lists the types."""
    return config.optional_boolean("attention_sinks") is not False


GRANITE_ROPE: Final = RopeTables(adjust=_granite_theta, rotates=_granite_rotates)
GRANITE: Final = Decoder(
    attention=Attention(qkv_bias=_ANY_BIAS, output_bias=_ANY_BIAS, sinks=granite_sinks),
    feed_forward=Gated(bias=given("mlp_bias")),
    rope=GRANITE_ROPE,
)
_COHERE_ATTENTION: Final = Attention(
    qkv_bias=ATTENTION_BIAS,
    output_bias=ATTENTION_BIAS,
    qk_norm=qk_norm(QkNorm.EACH, given("use_qk_norm")),
)
COHERE: Final = Decoder(
    attention=_COHERE_ATTENTION,
    norms=layer_norms(1),
    rope=INTERLEAVED,
    tied=always,
    everywhere=True,
)
COHERE2: Final = Decoder(
    attention=_COHERE_ATTENTION,
    norms=layer_norms(1),
    rope=RopeTables(rotates=is_sliding, interleaved=True),
    tied=always,
    everywhere=True,
)


def half_rotated(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """GLM rotates half of each head where the config does not say."""
    return {"partial_rotary_factor": 0.5, **parameters}


HALF_ROPE: Final = RopeTables(adjust=half_rotated)
GLM4: Final = Decoder(
    attention=Attention(qkv_bias=given("attention_bias", absent=True)),
    norms=layer_norms(4),
    rope=HALF_ROPE,
)
GLM4_TEXT: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS), norms=layer_norms(4), rope=HALF_ROPE
)
EXAONE4: Final = Decoder(
    attention=Attention(qkv_bias=_ANY_BIAS, output_bias=_ANY_BIAS, qk_norm=HEAD_NORM)
)


def _xielu(facts: LayerFacts) -> Tensors:
    """Apertus' activation has two learned and two fixed numbers."""
    return facts.site.vector("mlp.act_fn", 1) * 4


def _hyperclovax_norms(facts: LayerFacts) -> Tensors:
    count = 4 if given("use_post_norm")(facts.config) else 2
    return layer_norms(count)(facts)


_HALF: Final[Mapping[str, Any]] = {"rope_type": "default", "partial_rotary_factor": 0.5}


def output_gate(facts: LayerFacts) -> Tensors:
    layer = facts.attention
    rows = layer.num_attention_heads * layer.head_size
    return facts.site.column("output_gate_proj", facts.hidden_size, rows)


def _dense_only(facts: LayerFacts) -> Tensors:
    if facts.config.optional_integer("num_experts"):
        raise unknown("MiniCPM's experts are not described", facts.config.origin)
    return LLAMA.feed_forward(facts)


MUSE: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, beside=output_gate),
    norms=layer_norms(4),
    rope=GRANITE_ROPE,
    everywhere=True,
)


def _attends_or_feeds(facts: LayerFacts) -> Tensors:
    """Cosmos' layers take turns: one attends, the next is a feed-forward."""
    part = _MIXER_ATTENTION if facts.attentions else _MIXER_FEED_FORWARD
    return part(facts)


_MIXER_ATTENTION: Final = Attention(
    path="mixer", qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS
)
_MIXER_FEED_FORWARD: Final = Plain(path="mixer", bias=given("mlp_bias"))
COSMOS: Final = Decoder(
    attention=_attends_or_feeds, feed_forward=nothing, norms=layer_norms(1), everywhere=True
)
CHATGLM: Final = Decoder(
    attention=Attention(
        qkv_bias=either(given("add_bias_linear"), given("add_qkv_bias")),
        output_bias=given("add_bias_linear"),
    ),
    feed_forward=Gated(intermediate=sized("ffn_hidden_size"), bias=given("add_bias_linear")),
    rope=RopeTables(adjust=lambda parameters, layer, config: dict(_HALF)),
    vocabulary=sized("padded_vocab_size"),
    tied=never,
    everywhere=True,
)

LLAMA_LIKE: Final[Mapping[str, Decoder]] = {
    "LlamaForCausalLM": LLAMA,
    "LlamaModel": LLAMA,
    "MistralForCausalLM": LLAMA,
    "MistralModel": LLAMA,
    "Ministral3ForCausalLM": LLAMA,
    "InternLM3ForCausalLM": LLAMA,
    "LLaMAForCausalLM": LLAMA,
    "ExaoneForCausalLM": LLAMA,
    "InternLM2ForCausalLM": INTERNLM2,
    "MiniCPMForCausalLM": replace(LLAMA, feed_forward=_dense_only, everywhere=True),
    "OrionForCausalLM": replace(
        LLAMA, norms=layer_norms(2, Norm.WITH_BIAS), final_norm=Norm.WITH_BIAS, everywhere=True
    ),
    "IQuestCoderForCausalLM": LLAMA,
    "LlamaBidirectionalModel": LLAMA,
    "SolarForCausalLM": LLAMA,
    "TeleChat3ForCausalLM": LLAMA,
    "Phi3ForCausalLM": LLAMA,
    "Qwen2ForCausalLM": QWEN2,
    "Qwen2Model": QWEN2,
    "MiMoForCausalLM": QWEN2,
    "Qwen3ForCausalLM": QWEN3,
    "Ernie4_5ForCausalLM": ERNIE,
    "GraniteForCausalLM": GRANITE,
    "GraniteSWAForCausalLM": Decoder(
        attention=Attention(qkv_bias=_ANY_BIAS, output_bias=_ANY_BIAS, sinks=_own_sinks),
        feed_forward=GRANITE.feed_forward,
        rope=GRANITE_ROPE,
        tied=given("tie_word_embeddings", absent=True),
    ),
    "CohereForCausalLM": COHERE,
    "Cohere2ForCausalLM": COHERE2,
    "Glm4ForCausalLM": GLM4,
    "Exaone4ForCausalLM": EXAONE4,
    "ApertusForCausalLM": Decoder(
        attention=Attention(qkv_bias=_llama_qkv_bias, output_bias=_ANY_BIAS, qk_norm=HEAD_NORM),
        feed_forward=Plain(bias=given("mlp_bias")),
        beside=_xielu,
    ),
    "HyperCLOVAXForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
        feed_forward=Gated(bias=given("mlp_bias")),
        norms=_hyperclovax_norms,
    ),
    "NemotronForCausalLM": Decoder(
        attention=Attention(qkv_bias=_ANY_BIAS, output_bias=_ANY_BIAS),
        feed_forward=Plain(bias=given("mlp_bias")),
        norms=layer_norms(2, Norm.WITH_BIAS),
        final_norm=Norm.WITH_BIAS,
    ),
    "StableLmForCausalLM": Decoder(
        attention=Attention(qkv_bias=given("use_qkv_bias")),
        norms=layer_norms(2, Norm.WITH_BIAS),
        final_norm=Norm.WITH_BIAS,
        everywhere=True,
    ),
    "ChatGLMModel": CHATGLM,
    "ChatGLMForConditionalGeneration": CHATGLM,
}
