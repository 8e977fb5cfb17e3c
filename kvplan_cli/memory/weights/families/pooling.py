"""Classes of their own for pooling: encoders' tasks, reward models, late interaction.

Source: vLLM 0.33.0 ``models/{bert,roberta,modernbert,bert_with_rope,colbert,gpt2,qwen2_rm,
internlm2,jina,voyage}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder, Extras, Stage, all_of
from kvplan_cli.memory.weights.families.elder import ELDER
from kvplan_cli.memory.weights.families.encoders import BERT, MODERNBERT
from kvplan_cli.memory.weights.families.llama_like import (
    ATTENTION_BIAS,
    INTERNLM2,
    LLAMA,
    QWEN2,
    QWEN3,
)
from kvplan_cli.memory.weights.families.mixtures import MIXTURES
from kvplan_cli.memory.weights.families.states import LFM2
from kvplan_cli.memory.weights.feed_forward import Gated, Plain
from kvplan_cli.memory.weights.heads import (
    CLASSIFIER,
    dense_then,
    head_site,
    hidden_size,
    labels,
    late_interaction,
    linear,
    masked_words,
    one,
)
from kvplan_cli.memory.weights.layers import LayerFacts, always, given, size, sized
from kvplan_cli.memory.weights.norms import Norm, QkNorm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import TABLES, RopeTables
from kvplan_cli.memory.weights.states import short_convolution
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.units import round_up


def _with(decoder: Decoder, *heads: Extras) -> Decoder:
    """The decoder with these heads in place of its own."""
    return replace(decoder, headless=True, extras=all_of(decoder.extras, *heads))


_POOLER: Final = linear("pooler.dense", hidden_size)


def _modernbert_dense(place: Site, config: HfConfig, *, bias: bool) -> Tensors:
    hidden = hidden_size(config)
    norm = Norm.WITH_BIAS if given("norm_bias")(config) else Norm.ONE
    return (
        *place.plain("head.dense", hidden, hidden, bias=bias),
        *norm.at(place, hidden, "head.norm"),
    )


def _modernbert_pooler(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    place = head_site(site, config)
    return _modernbert_dense(place, config, bias=given("classifier_bias")(config))


def _modernbert_prediction(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    bias = given("classifier_bias")(config)
    return _modernbert_dense(site.unquantized(), config, bias=bias)


def _rope_embeddings(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden, types = hidden_size(config), config.optional_integer("type_vocab_size", minimum=0)
    norm = Norm.WITH_BIAS.at(site, hidden, "embeddings.LayerNorm")
    if not types:
        return norm
    return norm + site.embedding("token_type_embeddings", types, hidden)


def _gated(config: HfConfig) -> bool:
    return config.text("activation_function") == "swiglu"


def _nomic_sparse(config: HfConfig, index: int) -> bool:
    step = config.optional_integer("moe_every_n_layers", minimum=0) or 0
    return step > 0 and index % step == 1


def _nomic_experts(facts: LayerFacts) -> Tensors:
    """Experts without a gate, and one bias for their sum."""
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("mlp")
    count, inner = config.positive("num_experts"), site.share(_INNER(config))
    return (
        *site.plain("router", hidden, count),
        *site.vector("w1", count * inner * hidden),
        *site.vector("w2", count * inner * hidden),
        *site.vector("bias", hidden),
    )


def _nomic_feed_forward(facts: LayerFacts) -> Tensors:
    if _nomic_sparse(facts.config, facts.index):
        return _nomic_experts(facts)
    kind = Gated if _gated(facts.config) else Plain
    return kind(intermediate=_INNER, bias=_NOMIC_BIAS)(facts)


def _gte_feed_forward(facts: LayerFacts) -> Tensors:
    """Only the second matrix has a bias."""
    site, hidden = facts.site.at("mlp"), facts.hidden_size
    inner = facts.config.positive("intermediate_size")
    up = site.column("gate_up_proj", hidden, (inner, inner))
    return up + site.row("down_proj", inner, hidden, bias=True)


_INNER: Final = sized("n_inner", "intermediate_size")
_NOMIC_BIAS: Final = given("qkv_proj_bias")
_NOMIC_POSITIONS: Final = 2048


def _trained_positions(config: HfConfig) -> int:
    return config.optional_integer("max_position_embeddings", minimum=1) or _NOMIC_POSITIONS


def _turns(config: HfConfig) -> bool:
    """Whether RoBERTa's positions turn, as Jina's do, rather than being learned."""
    return config.optional_text("position_embedding_type") not in (None, "absolute")


def _roberta_extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return (_jina_embeddings if _turns(config) else BERT.extras)(site, config, stage)


def _jina_embeddings(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """With the rotary table, of eights of positions where graphs are captured.

    Source: vLLM 0.33.0 ``models/config.py:JinaRobertaModelConfig``.
    """
    rows = config.positive("max_position_embeddings")
    rows = rows if site.enforce_eager else round_up(rows, _WARPS)
    whole = hidden_size(config) // size(config, "num_attention_heads")
    turned = config.optional_integer("rotary_emb_dim", minimum=1) or whole
    return (
        *_rope_embeddings(site, config, stage),
        *site.vector("rotary_emb.cos_sin_cache", rows * turned),
    )


def _roberta_feed_forward(facts: LayerFacts) -> Tensors:
    gated = _turns(facts.config) and facts.config.text("hidden_act") in ("silu", "geglu")
    return Gated(bias=always)(facts) if gated else BERT.feed_forward(facts)


_WARPS: Final = 8
_ROTATING_ROBERTA: Final = replace(BERT, feed_forward=_roberta_feed_forward, extras=_roberta_extras)


def _private_labels(config: HfConfig) -> int:
    """Its config's class names labels of its own where a file names none."""
    named = config.has("id2label") or config.has("num_labels")
    return labels(config) if named else _PRIVATE_LABELS


# Source: transformers 5.20.2 ``OpenAIPrivacyFilterConfig``.
_PRIVATE_LABELS: Final = 33
_PRIVACY_FILTER: Final = _with(MIXTURES["GptOssForCausalLM"], linear("score", _private_labels))
_ROPE_BERT: Final = replace(BERT, extras=_rope_embeddings, rope=TABLES)
_GTE: Final = replace(_ROPE_BERT, feed_forward=_gte_feed_forward)
_NOMIC: Final = replace(
    _ROPE_BERT,
    attention=Attention(path="attn", qkv_bias=_NOMIC_BIAS, output_bias=_NOMIC_BIAS),
    feed_forward=_nomic_feed_forward,
    rope=RopeTables(positions=_trained_positions),
)


def _reward(outputs: int) -> Extras:
    """Qwen2's two layers, shared out over the ranks; their class sets the number of outputs."""

    def tensors(site: Site, config: HfConfig, stage: Stage) -> Tensors:
        place, hidden = head_site(site, config), hidden_size(config)
        return (
            *place.column("score.0", hidden, hidden, bias=True),
            *place.row("score.2", hidden, outputs, bias=True),
        )

    return tensors


def _bidirectional_mixer(facts: LayerFacts) -> Tensors:
    """LFM2's mixer where nothing is cached: no state tells a convolution's size."""
    config = facts.config
    if facts.attentions or facts.state is not None:
        return LFM2.attention(facts)
    width, kernel = sized("conv_dim", "hidden_size")(config), config.positive("conv_L_cache")
    site = facts.site.at("short_conv")
    return short_convolution(site, width, kernel, bias=given("conv_bias")(config))


_DECODES: Final = given("is_decoder", absent=True)


def _encoder_bias(config: HfConfig) -> bool:
    return not _DECODES(config) and ATTENTION_BIAS(config)


# Jina's fifth embeddings stand on Qwen3, the smallest on EuroBERT.
_JINA_V5: Final = replace(
    QWEN3,
    attention=Attention(
        qkv_bias=ATTENTION_BIAS,
        output_bias=_encoder_bias,
        qk_norm=qk_norm(QkNorm.HEAD, _DECODES),
    ),
)


def _ranking(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Jina's projector, in the model dtype; its config's class names the outputs' width."""
    hidden = hidden_size(config)
    outputs = config.optional_integer("embedding_size", minimum=1) or _RANKING_SIZE
    return (
        *site.plain("projector.0", hidden, hidden // 2),
        *site.plain("projector.2", hidden // 2, outputs),
    )


# Source: vLLM 0.33.0 ``models/config.py:JinaForRankingConfig``.
_RANKING_SIZE: Final = 512


def _embedding(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return site.plain("linear", hidden_size(config), labels(config))


_MASKED: Final = _with(BERT, masked_words)
_CLASSIFIED: Final = _with(BERT, _POOLER, CLASSIFIER)
_ROBERTA: Final = _with(BERT, dense_then("classifier", labels))
_TOKENS: Final = _with(BERT, CLASSIFIER)

POOLING: Final[Mapping[str, Decoder]] = {
    "BertForMaskedLM": _MASKED,
    "BertSpladeSparseEmbeddingModel": _MASKED,
    "BertForSequenceClassification": _CLASSIFIED,
    "BertForTokenClassification": _TOKENS,
    "BgeM3EmbeddingModel": _with(
        BERT, linear("sparse_linear", one), linear("colbert_linear", hidden_size)
    ),
    "RobertaForMaskedLM": BERT,
    "RobertaForSequenceClassification": _ROBERTA,
    "RobertaForTokenClassification": _TOKENS,
    "XLMRobertaForSequenceClassification": _ROBERTA,
    "XLMRobertaForTokenClassification": _TOKENS,
    "XLMRobertaModel": _ROTATING_ROBERTA,
    "ColBERTJinaRobertaModel": _with(_ROTATING_ROBERTA, late_interaction),
    "GteModel": _GTE,
    "GteNewModel": _GTE,
    "GteNewForSequenceClassification": _with(_GTE, _POOLER, CLASSIFIER),
    "NomicBertModel": _NOMIC,
    "ModernBertForSequenceClassification": _with(MODERNBERT, _modernbert_pooler, CLASSIFIER),
    "ModernBertForTokenClassification": _with(MODERNBERT, _modernbert_prediction, CLASSIFIER),
    "HF_ColBERT": _with(BERT, late_interaction),
    "ColBERTModernBertModel": _with(MODERNBERT, late_interaction),
    "ColBERTLfm2Model": _with(LFM2, late_interaction),
    "Lfm2BidirectionalModel": replace(LFM2, attention=_bidirectional_mixer),
    "GPT2ForSequenceClassification": _with(
        ELDER["GPT2LMHeadModel"], linear("score", labels, bias=False)
    ),
    "LlamaBidirectionalForSequenceClassification": _with(
        LLAMA, linear("score", labels, bias=False)
    ),
    "InternLM2ForRewardModel": _with(INTERNLM2, linear("v_head", one, bias=False)),
    "Qwen2ForRewardModel": _with(QWEN2, _reward(1)),
    "Qwen2ForProcessRewardModel": _with(QWEN2, _reward(2)),
    "JinaForRanking": _with(QWEN3, _ranking),
    "JinaEmbeddingsV5Model": _JINA_V5,
    "OpenAIPrivacyFilterForTokenClassification": _PRIVACY_FILTER,
    "VoyageQwen3BidirectionalEmbedModel": _with(QWEN3, _embedding),
}
