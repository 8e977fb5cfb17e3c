"""Heads made of other families' layers: Cohere, Llama 4, Mistral, Laguna, Beam, Gemma 4, Kimi.

Source: vLLM 0.33.0 ``model_executor/models/{cohere_eagle,llama4_eagle,mistral_large_3_eagle,
laguna_dflash,gemma4_dspark}.py`` and ``vllm/models/{beam,kimi_k3}/nvidia``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.drafters.blocks import convolved, frame, markov, selector, trust
from kvplan_cli.memory.weights.drafters.heads import blocks_of, draft_words, with_ends
from kvplan_cli.memory.weights.drafters.own import DraftWeights
from kvplan_cli.memory.weights.drafters.place import DraftPlace, block_tensors
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK
from kvplan_cli.memory.weights.families.gemma_per_layer import GEMMA4
from kvplan_cli.memory.weights.families.llama_like import COHERE2
from kvplan_cli.memory.weights.families.mixtures import LLAMA4
from kvplan_cli.memory.weights.families.mixtures_windowed import LAGUNA
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.latent import LatentAttention, LatentRope
from kvplan_cli.memory.weights.layers import LayerFacts, sized
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.shape import AttentionKind, AttentionLayer


def cohere(place: DraftPlace) -> DraftWeights:
    """Cohere layers, a projection with a bias, a norm, and no head."""
    hidden = place.hidden_size
    joined = place.site.replicated("fc", 2 * hidden, hidden, bias=True)
    layers = blocks_of(place, COHERE2, COHERE2) + joined + place.norms(1)
    return with_ends(place, layers, head=False)


def _rotates(layer: AttentionLayer, config: HfConfig) -> bool:
    return layer.kind is AttentionKind.CHUNKED


def llama4(place: DraftPlace) -> DraftWeights:
    """Llama 4 layers without experts; only those that attend in chunks rotate."""
    dense = replace(
        LLAMA4,
        feed_forward=Gated(path="feed_forward", intermediate=sized("intermediate_size_mlp")),
        rope=RopeTables(rotates=_rotates),
    )
    hidden = place.hidden_size
    joined = place.site.plain("fc", 2 * hidden, hidden)
    return with_ends(place, blocks_of(place, dense, dense) + joined + place.norms(1))


def mistral_large_3(place: DraftPlace) -> DraftWeights:
    """DeepSeek layers that count their dense ones from the draft's first."""
    hidden, layers = place.hidden_size, place.rope(DEEPSEEK.rope, place.text)
    for number, caches in enumerate(place.blocks):
        layers += block_tensors(DEEPSEEK, place.facts(number, caches, place.text))
    joined = place.site.row("fc", 2 * hidden, hidden)
    return DraftWeights(layers=layers + joined + place.norms(1))


def _turning(place: DraftPlace) -> DraftPlace:
    """The layers as they rotate: of their kind, though their caches have no window."""
    if SLIDING not in place.text.list("layer_types"):
        return place
    blocks = tuple(
        tuple(
            replace(layer, kind=AttentionKind.SLIDING)
            for layer in block
            if isinstance(layer, AttentionLayer)
        )
        for block in place.blocks
    )
    return replace(place, blocks=blocks)


def laguna(place: DraftPlace) -> DraftWeights:
    """Laguna layers, and a norm for each of the target's states."""
    hidden, site = place.hidden_size, place.site
    states = len(place.text.section("dflash_config").list("target_layer_ids"))
    layers: Tensors = _turning(place).rope(LAGUNA.rope, place.text)
    for number, caches in enumerate(place.blocks):
        layers += block_tensors(LAGUNA, place.facts(number, caches, place.text))
    layers += site.vector("mask_embedding", hidden) + place.norms(2)
    layers += place.norms(states, place.target_hidden_size)
    layers += site.replicated("fc", states * place.target_hidden_size, hidden)
    return with_ends(place, layers)


def beam(place: DraftPlace) -> DraftWeights:
    """DFlash 2's layers without a mask of their own, never quantized."""
    plain = place.unquantized()
    tensors = frame(plain, convolved(plain), masked=False)
    return DraftWeights(layers=tensors + selector(plain))


def _separate(facts: LayerFacts) -> Tensors:
    """Queries, keys and values by projections of their own; keys may serve as values."""
    layer, site, hidden = facts.attention, facts.site.at("self_attn"), facts.hidden_size
    wide = layer.num_attention_heads * layer.head_size
    full = layer.kind is AttentionKind.FULL
    shared = full and bool(facts.config.optional_boolean("attention_k_eq_v"))
    keys = site.column("k_proj", hidden, layer.num_kv_heads * layer.head_size)
    return (
        *site.column("q_proj", hidden, wide),
        *keys * (1 if shared else 2),
        *site.row("o_proj", wide, hidden),
        *site.vector("qk_norm", layer.head_size) * 2,
        *cache_scales(site),
    )


_GEMMA4_LAYER: Final = replace(
    GEMMA4,
    attention=_separate,
    feed_forward=GATED,
    norms=layer_norms(4),
    beside=lambda facts: facts.site.vector("layer_scalar", 1),
)


def gemma4(place: DraftPlace) -> DraftWeights:
    """Gemma 4 layers with DSpark's heads."""
    text, hidden, site = place.text, place.hidden_size, place.site
    named = text.optional_list("dspark_target_layer_ids") or text.list("target_layer_ids")
    tensors = (
        *blocks_of(place, _GEMMA4_LAYER, _GEMMA4_LAYER),
        *site.replicated("fc", len(named) * hidden, hidden),
        *place.norms(2),
        *site.vector("normalizer", 1),
        *markov(place, text.positive("markov_rank"), draft_words(place)),
        *trust(place),
    )
    return with_ends(place, tensors)


def _one_scale(facts: LayerFacts) -> Tensors:
    return facts.site.vector("_one_scale", 1, FLOAT32)


_KIMI_LAYER: Final = replace(
    DEEPSEEK,
    attention=LatentAttention(beside=_one_scale),
    feed_forward=GATED,
    rope=LatentRope(always_fp32=True),
)


def kimi_k3(place: DraftPlace) -> DraftWeights:
    """Dense layers of latent attention, and what fills their caches with the target's states."""
    text, hidden, site = place.text, place.hidden_size, place.site
    stored = text.positive("kv_lora_rank") + text.positive("qk_rope_head_dim")
    states = text.positive("num_target_layers") * text.positive("target_hidden_size")
    tensors = (
        *blocks_of(place, _KIMI_LAYER, _KIMI_LAYER),
        *site.replicated("context_proj", states, hidden),
        *site.replicated("context_kv_proj", hidden, (stored,) * len(place.blocks)),
        *place.norms(2),
        *markov(place, text.positive("markov_rank"), draft_words(place)),
        *trust(place),
    )
    return DraftWeights(layers=tensors)


FAMILY_HEADS: Final[Mapping[str, Callable[[DraftPlace], DraftWeights]]] = {
    "DFlash2BeamDraftModel": beam,
    "DFlashLagunaForCausalLM": laguna,
    "EagleCohereForCausalLM": cohere,
    "EagleLlama4ForCausalLM": llama4,
    "EagleMistralLarge3ForCausalLM": mistral_large_3,
    "Gemma4DSparkModel": gemma4,
    "K3DSparkModel": kimi_k3,
}
