"""Decoders that few people serve: Llama's frame with a part or two of their own.

Source: vLLM 0.33.0 ``models/{rnj1,domyn_edge,dory,iquest_loopcoder,teleflm,telechat2}.py`` and
``vllm/models/flint``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, cache_scales, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.gemma import GEMMA3
from kvplan_cli.memory.weights.families.llama_like import (
    ATTENTION_BIAS,
    HEAD_NORM,
    LLAMA,
    MUSE,
    QWEN3,
)
from kvplan_cli.memory.weights.families.minimax_m3 import MINIMAX_M3
from kvplan_cli.memory.weights.families.mixtures import SMALL
from kvplan_cli.memory.weights.families.mixtures_windowed import WINDOWED_MIXTURES
from kvplan_cli.memory.weights.feed_forward import GATED, Gated, Plain
from kvplan_cli.memory.weights.layers import (
    LayerFacts,
    Part,
    Size,
    always,
    given,
    never,
    nothing,
    size,
    sized,
    together,
    where,
)
from kvplan_cli.memory.weights.moe import Experts, no_size
from kvplan_cli.memory.weights.norms import Norm, QkNorm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables, no_rope
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, CacheLayer


def _loop_gate(facts: LayerFacts) -> Tensors:
    """What weighs the first loop's keys and values against the current one's."""
    head_size, heads = facts.attentions[0].head_size, facts.attentions[0].num_attention_heads
    return facts.site.at("gate_projections").column("gate_proj", head_size, heads, bias=True)


def _looped_attention(facts: LayerFacts) -> Tensors:
    """One attention's matrices, whatever caches the loops keep beside the first."""
    first, *others = facts.attentions
    once = replace(facts, caches=(first,))
    return (*Attention()(once), *_loop_gate(facts), *(cache_scales(facts.site) * len(others)))


def _key_norm(facts: LayerFacts) -> Tensors:
    return Norm.ONE.at(facts.site, facts.attention.head_size, "k_norm")


def _turns(layer: AttentionLayer, config: HfConfig) -> bool:
    return bool(config.list("position_layers")[layer.decoder_layer] == "rope")


def _dory_mixer(facts: LayerFacts) -> Tensors:
    """Layers take turns: attention with a gate and scales, or a feed-forward with scales."""
    site, hidden = facts.site.at("mixer"), facts.hidden_size
    alpha = facts.site.vector("alpha", hidden)
    if not facts.attentions:
        inner = facts.config.positive("intermediate_size")
        return (*Gated(path="mixer")(facts), *site.vector("suv", inner) * 2, *alpha)
    first, *others = facts.attentions
    wide = first.num_attention_heads * first.head_size
    return (
        *Attention(path="mixer")(replace(facts, caches=(first,))),
        *site.column("g_proj", hidden, wide),
        *site.vector("scale", wide) * 2,
        *alpha,
        *(cache_scales(site) * len(others)),
    )


def _logit_scale(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return site.vector("lm_head.logit_scale", config.positive("vocab_size"))


def _offsets(facts: LayerFacts) -> Tensors:
    heads = facts.site.share(facts.attention.num_attention_heads)
    return facts.site.vector("softmax_offset", heads, FLOAT32)


def _flint_turns(layer: AttentionLayer, config: HfConfig) -> bool:
    return layer.decoder_layer not in (config.optional_list("no_rope_layer_indices") or ())


def _down_bias(facts: LayerFacts) -> Tensors:
    """TeleChat 2's output projections have a bias, the merged ones do not."""
    return facts.site.vector("down_proj.bias", facts.hidden_size)


_MOLMO_MORE_ROWS: Final = 128


def _molmo_rows(config: HfConfig) -> int:
    return sized("embedding_size", "vocab_size")(config)


def _molmo_ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """The embedding has rows for what marks images; every stage holds it, and the last norm."""
    hidden = size(config, "hidden_size")
    rows = _molmo_rows(config) + _MOLMO_MORE_ROWS
    return site.embedding("embed_tokens", rows, hidden) + site.vector("norm", hidden)


MOLMO: Final = Decoder(
    attention=Attention(
        qkv_bias=given("qkv_bias"), qk_norm=qk_norm(QkNorm.WHOLE, given("attention_layer_norm"))
    ),
    feed_forward=Gated(intermediate=lambda config: config.positive("intermediate_size") // 2),
    vocabulary=_molmo_rows,
    tied=given("weight_tying"),
    everywhere=True,
    ends=_molmo_ends,
)


def _molmo2_norms(config: HfConfig) -> QkNorm:
    if not given("use_qk_norm")(config):
        return QkNorm.NONE
    return QkNorm.HEAD if config.text("qk_norm_type") == "qwen3" else QkNorm.WHOLE


def _molmo2_ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """As Molmo's, with as many more rows as the config says; they have no part in the head."""
    hidden = size(config, "hidden_size")
    more = config.optional_integer("additional_vocab_size", minimum=0) or 0
    rows = config.positive("vocab_size") + more
    return site.embedding("embed_tokens", rows, hidden) + site.vector("norm", hidden)


MOLMO2: Final = Decoder(
    attention=Attention(qkv_bias=given("qkv_bias"), qk_norm=_molmo2_norms),
    tied=never,
    everywhere=True,
    ends=_molmo2_ends,
)


def _mbart_norms(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Of the embedding; the final norm has its own place."""
    return Norm.WITH_BIAS.at(site, config.positive("d_model"), "layernorm_embedding")


MBART: Final = Decoder(
    attention=Attention(qkv_bias=always, output_bias=always),
    feed_forward=Plain(intermediate=sized("decoder_ffn_dim"), bias=always),
    norms=layer_norms(2, Norm.WITH_BIAS),
    rope=no_rope,
    final_norm=Norm.WITH_BIAS,
    extras=_mbart_norms,
)


def _time_condition(facts: LayerFacts) -> Tensors:
    """Two linears that scale a layer by the delay, in the model dtype."""
    config, site = facts.config, facts.site.unquantized()
    if not given("ada_rms_norm_t_cond")(config):
        return ()
    inner = config.positive("ada_rms_norm_t_cond_dim")
    return (
        *site.column("ada_rms_norm_t_cond.0", facts.hidden_size, inner),
        *site.row("ada_rms_norm_t_cond.2", inner, facts.hidden_size),
    )


TIMED: Final = replace(LLAMA, beside=_time_condition)


def _ernie_vl_ends_at(config: HfConfig, kind: int) -> int:
    ends = config.optional_list("moe_layer_end_index")
    return int(ends[kind]) if ends else config.positive("num_hidden_layers") - 1


def _ernie_vl_sparse(config: HfConfig, index: int) -> bool:
    """Whether either kind of words has experts in this layer."""
    interval = config.optional_integer("moe_layer_interval", minimum=1) or 1
    starts = min(int(each) for each in config.list("moe_layer_start_index"))
    used = config.optional_boolean("use_moe") is not False
    last = max(_ernie_vl_ends_at(config, kind) for kind in range(2))
    return used and (index + 1) % interval == 0 and starts <= index <= last


def _of_kind(key: str, kind: int) -> Size:
    """A size that is listed for words of text and for those of images."""
    return lambda config: int(config.list(key)[kind])


def _ernie_vl_shared(config: HfConfig) -> int:
    shared = config.optional_integer("moe_num_shared_experts", minimum=0) or 0
    return shared * int(config.list("moe_intermediate_size")[0])


def _ernie_vl_experts(kind: int) -> Part:
    """Experts for one kind of words; those for text are counted with what both kinds share."""

    def tensors(facts: LayerFacts) -> Tensors:
        index, config = facts.index, facts.config
        start = int(config.list("moe_layer_start_index")[kind])
        if not start <= index <= _ernie_vl_ends_at(config, kind):
            raise unknown("layers with experts for one kind of words only", config.origin)
        experts = Experts(
            count=_of_kind("moe_num_experts", kind),
            intermediate=_of_kind("moe_intermediate_size", kind),
            shared=_ernie_vl_shared if kind == 0 else no_size,
            router_fp32=always,
            correction=always,
        )
        return experts(facts)

    return tensors


_MROPE: Final = RopeTables(
    adjust=lambda parameters, layer, config: {"mrope_section": (), **parameters}
)


def _ernie_vl_tables(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """Each layer makes a table of its own."""
    return tuple(t for layer in layers for t in _MROPE(config, [layer], itemsize))


_ERNIE_BIAS: Final = given("use_bias")
ERNIE_VL: Final = Decoder(
    attention=Attention(qkv_bias=_ERNIE_BIAS),
    feed_forward=where(
        _ernie_vl_sparse,
        together(_ernie_vl_experts(0), _ernie_vl_experts(1)),
        Gated(bias=_ERNIE_BIAS),
    ),
    rope=_ernie_vl_tables,
    tied=given("tie_word_embeddings", absent=True),
)
ISAAC: Final = replace(QWEN3, rope=_MROPE)


def _plamo_theta(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Sliding layers have a theta of their own in older configs."""
    section = config.optional_section("rope_parameters")
    if section is not None and section.has("full_attention"):
        return parameters
    if layer.kind is AttentionKind.SLIDING:
        local = config.optional_number("rope_local_theta")
        return {"rope_type": "default", "rope_theta": local}
    return parameters


_TELECHAT2: Final = replace(
    LLAMA,
    attention=Attention(output_bias=always),
    feed_forward=Gated(intermediate=sized("ffn_hidden_size", "intermediate_size")),
    beside=_down_bias,
)

RARER: Final[Mapping[str, Decoder]] = {
    "DomynEdgeForCausalLM": Decoder(
        attention=Attention(beside=_key_norm),
        norms=layer_norms(4),
        rope=RopeTables(itemsize=FLOAT32, rotates=_turns),
    ),
    "DoryForCausalLM": Decoder(
        attention=_dory_mixer,
        feed_forward=nothing,
        norms=nothing,
        rope=RopeTables(by_type=True),
        final_norm=Norm.NONE,
        tied=never,
        extras=_logit_scale,
    ),
    "FlintForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM, beside=_offsets),
        feed_forward=Experts(
            intermediate=SMALL,
            shared=sized("shared_expert_intermediate_size"),
            shared_path="shared_expert",
        ),
        rope=RopeTables(itemsize=FLOAT32, rotates=_flint_turns),
        everywhere=True,
    ),
    "IQuestLoopCoderForCausalLM": Decoder(
        attention=_looped_attention, feed_forward=GATED, everywhere=True
    ),
    "MiMoV2ForCausalLM": WINDOWED_MIXTURES["MiMoV2FlashForCausalLM"],
    "MiniMaxM3SparseForCausalLM": MINIMAX_M3,
    "MuseGlimmerForCausalLM": MUSE,
    "Plamo3ForCausalLM": Decoder(
        attention=Attention(path="mixer", qk_norm=HEAD_NORM),
        norms=layer_norms(4),
        rope=RopeTables(by_type=True, adjust=_plamo_theta),
        capped_positions=True,
        everywhere=True,
    ),
    "Rnj1ForCausalLM": replace(GEMMA3, rope=RopeTables(by_type=True)),
    "Step1ForCausalLM": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
        feed_forward=Gated(bias=given("mlp_bias")),
        rope=no_rope,
    ),
    "TeleChat2ForCausalLM": _TELECHAT2,
    "TeleFLMForCausalLM": LLAMA,
}
