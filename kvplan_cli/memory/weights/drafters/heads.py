"""Heads and small models that draft with the target's hidden states, by the engine's class.

Source: vLLM 0.33.0 ``model_executor/models/{llama_eagle,llama_eagle3,qwen3_eagle3,mistral_eagle,
deepseek_eagle,deepseek_eagle3,minicpm_eagle}.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.drafters.own import DraftWeights, Keeps
from kvplan_cli.memory.weights.drafters.place import DraftPlace, block_tensors
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK
from kvplan_cli.memory.weights.families.llama_like import (
    ATTENTION_BIAS,
    HEAD_NORM,
    LLAMA,
    LLAMA_ATTENTION,
)
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.latent import LatentAttention
from kvplan_cli.memory.weights.layers import Size, size
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.tensors import INT64, Tensors

# Hidden states of the target that Eagle 3 reads where its config names no layers.
_AUX_STATES: Final = 3
_NAMED_LAYERS: Final = "eagle_aux_hidden_state_layer_ids"


def draft_words(place: DraftPlace) -> int:
    """Words that the head counts."""
    own = place.text.optional_integer("draft_vocab_size", minimum=1)
    return size(place.text, "vocab_size") if own is None else own


def word_map(place: DraftPlace) -> Tensors:
    """From the draft's words to the target's, where they differ."""
    words = draft_words(place)
    if words == place.target_vocab_size:
        return ()
    return place.site.vector("draft_id_to_target_id", words, INT64)


def with_ends(place: DraftPlace, layers: Tensors, *, head: bool = True) -> DraftWeights:
    """A head whose checkpoint may bring an embedding and a head of its own."""
    words = draft_words(place)
    return DraftWeights(
        layers=layers,
        embedding=place.embedding(),
        keeps_embedding=Keeps.IF_STORED,
        head=place.site.head(words, place.hidden_size) if head else (),
        keeps_head=Keeps.IF_STORED,
        other_words=words != place.target_vocab_size,
    )


def blocks_of(place: DraftPlace, first: Decoder, others: Decoder) -> Tensors:
    """The decoder layers, the first of which may read more, and their rotary tables."""
    layers: Tensors = ()
    for number, caches in enumerate(place.blocks):
        decoder = others if number else first
        layers += block_tensors(
            decoder, place.facts(place.first_number + number, caches, place.text)
        )
    return layers + place.rope(others.rope, place.text)


def _eagle3(first: Decoder, others: Decoder, states: Size) -> Callable[[DraftPlace], DraftWeights]:
    """Layers whose first reads token and state side by side. states: how many of the target's."""

    def weights(place: DraftPlace) -> DraftWeights:
        width = states(place.text) * target_width(place)
        fused = _fused_states(place, width, states(place.text))
        layers = word_map(place) + blocks_of(place, first, others) + fused + place.norms(1)
        if place.parallel_drafting:
            layers += place.site.vector("mask_hidden", width)
        return with_ends(place, layers)

    return weights


def _fused_states(place: DraftPlace, width: int, states: int) -> Tensors:
    """What makes one state of several of the target's."""
    text = place.text
    section = text.optional_section("eagle_config")
    uses = section.optional_boolean("use_aux_hidden_state") if section is not None else None
    if uses is False:
        return ()
    before = section.optional_boolean("norm_before_fc") if section is not None else None
    if before is None:
        before = text.optional_boolean("norm_before_fc")
    tensors = place.site.replicated("fc", width, place.hidden_size)
    if before:
        tensors += place.norms(1, width)
    if text.optional_boolean("fc_norm"):
        tensors += place.norms(states, target_width(place))
    return tensors


def target_width(place: DraftPlace) -> int:
    """Elements of one of the target's hidden states."""
    return place.text.optional_integer("target_hidden_size", minimum=1) or place.hidden_size


def _states(keys: Sequence[str], *, listed_outside: bool) -> Size:
    """How many states a head reads: a number, or as many as layers are named."""

    def count(text: HfConfig) -> int:
        for key in keys:
            stated = text.optional_integer(key, minimum=1)
            if stated is not None:
                return stated
        section = text.optional_section("eagle_config")
        listed = section.optional_list(_NAMED_LAYERS) if section is not None else None
        if listed_outside:
            listed = text.optional_list(_NAMED_LAYERS) or listed
        return len(listed or ()) or _AUX_STATES

    return count


def eagle_llama(place: DraftPlace) -> DraftWeights:
    """Llama layers without the first one's norm, and no head."""
    first = replace(LLAMA, norms=layer_norms(1))
    hidden = place.hidden_size
    layers = blocks_of(place, first, LLAMA) + place.site.replicated("fc", 2 * hidden, hidden)
    return with_ends(place, layers, head=False)


def eagle_mistral(place: DraftPlace) -> DraftWeights:
    """Mistral layers, a projection that is shared out, a norm, and no head."""
    hidden = place.hidden_size
    joined = place.site.row("fc", 2 * hidden, hidden)
    layers = blocks_of(place, LLAMA, LLAMA) + joined + place.norms(1)
    return with_ends(place, layers, head=False)


def eagle_minicpm(place: DraftPlace) -> DraftWeights:
    """MiniCPM layers, two norms before the projection and one behind."""
    hidden = place.hidden_size
    joined = place.site.plain("fc", 2 * hidden, hidden)
    layers = blocks_of(place, _MINICPM, _MINICPM) + joined + place.norms(3)
    return with_ends(place, layers)


def eagle_deepseek(place: DraftPlace) -> DraftWeights:
    """DeepSeek layers, mixtures where their number is high enough."""
    hidden = place.hidden_size
    joined = place.site.plain("fc", 2 * hidden, hidden)
    return with_ends(place, blocks_of(place, DEEPSEEK, DEEPSEEK) + joined + place.norms(3))


_MINICPM: Final = replace(LLAMA, attention=Attention(), feed_forward=GATED)
_LLAMA_LAYER: Final = replace(
    LLAMA, attention=replace(LLAMA_ATTENTION, qkv_bias=ATTENTION_BIAS), norms=layer_norms(3)
)
_QWEN_LAYER: Final = replace(
    LLAMA,
    attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
    feed_forward=GATED,
    norms=layer_norms(3),
)
_LATENT_LAYER: Final = replace(DEEPSEEK, feed_forward=GATED, norms=layer_norms(3))
_LLAMA_STATES: Final = _states(("num_aux_hidden_states",), listed_outside=False)
_QWEN_STATES: Final = _states(("num_aux_layers", "num_aux_hidden_states"), listed_outside=True)


def _wide(decoder: Decoder) -> Decoder:
    """The layer with twice as much to read."""
    attention = decoder.attention
    assert isinstance(attention, Attention | LatentAttention), "layers of these tables"
    return replace(decoder, attention=replace(attention, inputs=2))


_LLAMA_EAGLE3: Final = _eagle3(_wide(_LLAMA_LAYER), _LLAMA_LAYER, _LLAMA_STATES)
_QWEN_EAGLE3: Final = _eagle3(_wide(_QWEN_LAYER), _QWEN_LAYER, _QWEN_STATES)


def _eagle3_qwen(place: DraftPlace) -> DraftWeights:
    return _QWEN_EAGLE3(place.of_qwen())


_LATENT_EAGLE3: Final = _eagle3(_wide(_LATENT_LAYER), _LATENT_LAYER, _LLAMA_STATES)
HEADS: Final[Mapping[str, Callable[[DraftPlace], DraftWeights]]] = {
    **dict.fromkeys(
        (
            *("Eagle3LlamaForCausalLM", "Eagle3MiniMaxM2ForCausalLM", "Eagle3Qwen2_5vlForCausalLM"),
            *("Eagle3Qwen3vlForCausalLM", "LlamaForCausalLMEagle3"),
            "PeagleLlamaForCausalLM",
        ),
        _LLAMA_EAGLE3,
    ),
    **dict.fromkeys(("Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM"), _eagle3_qwen),
    **dict.fromkeys(("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM"), _LATENT_EAGLE3),
    "EagleDeepSeekMTPModel": eagle_deepseek,
    "EagleLlamaForCausalLM": eagle_llama,
    "EagleMiniCPMForCausalLM": eagle_minicpm,
    "EagleMistralForCausalLM": eagle_mistral,
}
