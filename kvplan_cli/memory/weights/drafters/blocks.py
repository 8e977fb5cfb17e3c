"""Drafters that predict a block of tokens in one pass: DFlash, DSpark, Gemma 4's assistant.

Source: vLLM 0.33.0 ``model_executor/models/{qwen3_dflash,qwen3_dflash2,qwen3_dspark,gemma4_mtp}.
py`` and ``vllm/models/deepseek_v4{,1}/nvidia/dspark.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, QueryOnlySharing
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.drafters.heads import (
    blocks_of,
    draft_words,
    target_width,
    with_ends,
    word_map,
)
from kvplan_cli.memory.weights.drafters.own import DraftWeights, Keeps
from kvplan_cli.memory.weights.drafters.place import DraftPlace
from kvplan_cli.memory.weights.families.gemma_per_layer import GEMMA4
from kvplan_cli.memory.weights.families.latent_others import hyper_connections
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import LayerFacts, given, size
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.ranks import VOCABULARY_PADDING
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.models.shape import AttentionLayer
from kvplan_cli.units import round_up


def _has_sinks(layer: AttentionLayer, config: HfConfig) -> bool:
    section = config.optional_section("dflash_config")
    own = section.optional_boolean("attention_sink_bias") if section is not None else None
    return given("add_swa_attention_sink_bias")(config) if own is None else own


_LAYER: Final = Decoder(
    attention=Attention(
        qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM, sinks=_has_sinks
    )
)


def _section(place: DraftPlace) -> HfConfig:
    return place.text.optional_section("dflash_config") or HfConfig({}, place.text.origin)


def _named_layers(place: DraftPlace) -> int:
    """How many of the target's states a block drafter reads: as many as layers are named."""
    return listed_layers(place.text) or size(place.text, "num_hidden_layers")


def listed_layers(text: HfConfig) -> int:
    """How many of the target's layers a drafter's config names.

    Source: vLLM 0.33.0 ``v1/worker/gpu/spec_decode/eagle/eagle3_utils.py``.
    """
    nothing = HfConfig({}, text.origin)
    section = text.optional_section("dflash_config") or nothing
    eagle = text.optional_section("eagle_config") or nothing
    for listed in (
        text.optional_list("eagle_aux_hidden_state_layer_ids"),
        section.optional_list("target_layer_ids"),
        text.optional_list("dspark_target_layer_ids"),
        text.optional_list("target_layer_ids"),
        section.optional_list("layer_ids"),
        eagle.optional_list("layer_ids"),
    ):
        if listed:
            return len(listed)
    return 0


def frame(place: DraftPlace, decoder: Decoder = _LAYER, *, masked: bool = True) -> Tensors:
    """Layers, the fused states, two norms, and where ``masked`` a mask of its own."""
    tensors = blocks_of(place.of_qwen(), decoder, decoder) + place.norms(2)
    if masked:
        tensors += place.site.vector("mask_embedding", place.hidden_size)
    uses = _section(place).optional_boolean("use_aux_hidden_state")
    if uses is None:
        uses = place.text.optional_boolean("use_aux_hidden_state")
    if uses is not False:
        width = _named_layers(place) * target_width(place)
        tensors += place.site.replicated("fc", width, place.hidden_size)
    return tensors


def dflash(place: DraftPlace) -> DraftWeights:
    """Qwen 3 layers; a head of its own where the config says so."""
    made = with_ends(place, frame(place) + word_map(place))
    own = place.text.optional_boolean("has_own_lm_head") is True
    return replace(made, keeps_head=Keeps.ALWAYS) if own else made


def convolved(place: DraftPlace) -> Decoder:
    """The layer with two short convolutions."""
    section, hidden = _section(place), place.hidden_size
    taps, group = section.positive("conv_kernel_size"), section.positive("conv_group_size")

    def convolutions(facts: LayerFacts) -> Tensors:
        return (
            *facts.site.vector("base_kernel", 2 * taps * hidden),
            *facts.site.replicated("kernel_projection", hidden, 2 * taps * (hidden // group)),
        ) * 2

    return replace(_LAYER, beside=convolutions)


def selector(place: DraftPlace) -> Tensors:
    """Codebooks that choose candidates."""
    rank, words = _section(place).positive("selector_rank"), size(place.text, "vocab_size")
    return (
        *place.site.vector("codebook", words * rank) * 2,
        *place.site.plain("hidden_projection", place.hidden_size, rank),
    )


def dflash2(place: DraftPlace) -> DraftWeights:
    """The same with short convolutions in each layer, and codebooks that choose candidates."""
    tensors = frame(place, convolved(place)) + word_map(place) + selector(place)
    return with_ends(place, tensors)


def markov(place: DraftPlace, rank: int, words: int) -> Tensors:
    """From one token to the next: a table, and a matrix that every rank holds whole."""
    rows = round_up(words, VOCABULARY_PADDING)
    return (
        *place.site.vector("markov_w1", size(place.text, "vocab_size") * rank),
        *place.site.vector("markov_w2", rows * rank),
    )


def trust(place: DraftPlace) -> Tensors:
    """A row that tells how sure a draft is, where the config asks for it."""
    if not place.text.optional_boolean("enable_confidence_head"):
        return ()
    with_markov = place.text.optional_boolean("confidence_head_with_markov")
    rank = place.text.positive("markov_rank") if with_markov else 0
    return place.site.plain("confidence_head", place.hidden_size + rank, 1, bias=True, fp32=True)


def dspark(place: DraftPlace) -> DraftWeights:
    """DFlash's layers with a head that reads the token before, and one that tells its trust."""
    text, rank = place.text, place.text.positive("markov_rank")
    words, vocabulary = draft_words(place), size(text, "vocab_size")
    tensors = frame(place) + markov(place, rank, words) + trust(place)
    if words < place.target_vocab_size:
        tensors += place.site.vector("draft_id_to_target_id", words, INT64)
    made = with_ends(place, tensors)
    if vocabulary > place.target_vocab_size:
        made = replace(made, keeps_embedding=Keeps.ALWAYS)
    return replace(made, keeps_head=Keeps.ALWAYS) if made.other_words else made


def dspark_deepseek(place: DraftPlace) -> DraftWeights:
    """DeepSeek V4's own stages, which share one projection of the states."""
    text, hidden = place.text, place.hidden_size
    streams, stages = text.positive("hc_mult"), len(place.blocks)
    tensors = (
        *_stages(place),
        *place.site.replicated("context_wkv_proj", hidden, (text.positive("head_dim"),) * stages),
        *hyper_connections(place.site, streams, hidden, streams, 1),
    )
    return DraftWeights(layers=tensors)


def dspark_deepseek_v41(place: DraftPlace) -> DraftWeights:
    """DeepSeek V4.1's, whose experts may be of a number of their own."""
    experts = place.text.optional_integer("dspark_n_routed_experts", minimum=0)
    if experts:
        place = replace(place, text=place.text.with_value("n_routed_experts", experts))
    return DraftWeights(layers=_stages(place))


def _stages(place: DraftPlace) -> Tensors:
    """Layers, what fuses the target's states, two norms, and the heads."""
    text, hidden = place.text, place.hidden_size
    named, rank = len(text.list("dspark_target_layer_ids")), text.positive("dspark_markov_rank")
    tensors = (
        *blocks_of(place, place.decoder, place.decoder),
        *place.site.replicated("main_proj", named * hidden, hidden),
        *place.norms(2),
        *markov(place, rank, draft_words(place)),
    )
    if text.optional_boolean("enable_confidence_head") is not False:
        tensors += place.site.plain("confidence_head", hidden + rank, 1, fp32=True)
    return tensors


_QUERIES: Final = QueryOnlySharing(
    qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM
)


def gemma4_assistant(place: DraftPlace) -> DraftWeights:
    """Narrow layers that read the target's caches, and a head over their own width."""
    text, hidden, site = place.text, place.hidden_size, place.site
    wide = place.config.optional_integer("backbone_hidden_size", minimum=1) or hidden
    tensors = (
        *blocks_of(place, _ASSISTANT, _ASSISTANT),
        *site.column("pre_projection", 2 * wide, hidden),
        *site.row("post_projection", hidden, wide),
        *place.norms(1),
        *site.vector("normalizer", 1),
    )
    words = size(text, "vocab_size")
    if place.config.optional_boolean("use_ordered_embeddings"):
        centroids = place.config.optional_integer("num_centroids", minimum=1) or _CENTROIDS
        tensors += site.plain("centroids", hidden, centroids)
        tensors += site.vector("token_ordering", words, INT64)
    return DraftWeights(layers=tensors, head=site.head(words, hidden), keeps_head=Keeps.ALWAYS)


_CENTROIDS: Final = 2048
_ASSISTANT: Final = replace(
    GEMMA4,
    attention=_QUERIES,
    feed_forward=GATED,
    norms=layer_norms(4),
    beside=lambda facts: facts.site.vector("layer_scalar", 1),
)
BLOCKS: Final[Mapping[str, Callable[[DraftPlace], DraftWeights]]] = {
    **dict.fromkeys(("DFlashDraftModel", "DFlashMuseGlimmerAssistantModel"), dflash),
    "DFlash2DraftModel": dflash2,
    **dict.fromkeys(("Qwen3DSparkModel", "Qwen3OmniDSparkModel"), dspark),
    "DSparkDraftModel": dspark_deepseek,
    "DSparkV41DraftModel": dspark_deepseek_v41,
    "Gemma4MTPModel": gemma4_assistant,
}
