"""Heads made of other families' layers: Cohere, Llama 4, Mistral Large 3, Laguna, Gemma 4, Kimi K3.

Source: vLLM 0.33.0 ``model_executor/models/{cohere_eagle,llama4_eagle,mistral_large_3_eagle,
laguna_dflash,gemma4_dspark}.py`` and ``vllm/models/kimi_k3/nvidia/dspark_mla.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.draft import BEHIND, Place
from kvplan_cli.models.drafters.head import Head, any_non_causal, dflash, stack
from kvplan_cli.models.gemma import GEMMA4
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import latent_layer
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.llama_like import GROUPED, SPLIT
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, CacheLayer, MLALayer
from kvplan_cli.models.windowed import LAGUNA


def cohere(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Cohere layers; kinds go on behind the target's where both have them."""
    kinds, target = language.layer_types, place.target.layer_types
    if kinds is None:
        raise _refuses(
            "'EAGLEConfig' object has no attribute 'layer_types'", error_type="AttributeError"
        )
    if target is not None:
        kinds = [*target, *kinds]
    first, window = place.stage_layers, language.sliding_window
    behind = list(kinds[first : first + language.num_hidden_layers])
    if len(behind) < language.num_hidden_layers:
        raise _refuses("list index out of range", error_type="IndexError")
    windows = [window + 1 if kind == SLIDING and window is not None else None for kind in behind]
    return stack(language, SPLIT, place.stage_layers, windows, place)


def llama4(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Llama 4 layers without experts; those with rotary positions attend in chunks."""
    config = language.config
    if config.optional_list("moe_layers"):
        raise EngineRefusalError(
            stage="model_error", error_type="AssertionError", message="AssertionError: "
        )
    chunk = config.optional_integer("attention_chunk_size", minimum=0)
    ropes = config.list("no_rope_layers")
    windows = [None] * language.num_hidden_layers
    layers = stack(language, GROUPED, place.stage_layers, windows, place)
    return [
        replace(layer, kind=AttentionKind.CHUNKED, attention_chunk_size=chunk, sliding_window=None)
        if chunk and ropes[index]
        else layer
        for index, layer in enumerate(layers)
    ]


def mistral_large_3(language: Language, place: Place) -> Sequence[CacheLayer]:
    """DeepSeek layers numbered behind the last stage's."""
    return _latent(language, BEHIND, place.stage_layers)


def kimi_k3(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Latent attention without a name of its own."""
    layers = _latent(language, "model.layers.{}.self_attn", place.num_hidden_layers)
    return [replace(layer, non_causal_multi_token_decode=True) for layer in layers]


def _latent(language: Language, name: str, first: int) -> Sequence[MLALayer]:
    return [
        latent_layer(language, 0, name.format(first + index))
        for index in range(language.num_hidden_layers)
    ]


_MUSE_TYPE: Final = "muse_glimmer_assistant"


def muse_glimmer(language: Language, place: Place) -> Sequence[CacheLayer]:
    """DFlash's layers; the assistant's own class knows their kinds."""
    config = language.config
    if config.optional_text("model_type") == _MUSE_TYPE and not config.has("layer_types"):
        raise MissingFieldError(config.where("layer_types"), config.origin)
    return dflash(language, place)


def muse_is_non_causal(language: Language) -> bool:
    """The engine writes into a silent assistant's config that it attends both ways."""
    section = language.config.optional_section("dflash_config")
    silent = section is None or section.optional_boolean("causal") is None
    assistant = language.config.optional_text("model_type") == _MUSE_TYPE
    return (assistant and silent) or any_non_causal(language)


def laguna(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Laguna layers of one kind, whose caches have no window whatever they slide over."""
    config = language.config
    _check_laguna(language, place.target.config)
    layers = LAGUNA.some_layers(language, range(config.positive("num_hidden_layers")))
    return [
        replace(
            layer,
            name=BEHIND.format(place.num_hidden_layers + index),
            decoder_layer=0,
            kind=AttentionKind.FULL,
            sliding_window=None,
        )
        for index, layer in enumerate(layers)
        if isinstance(layer, AttentionLayer)
    ]


def _check_laguna(language: Language, target: HfConfig) -> None:
    """What the class asks before it builds; EngineRefusalError."""
    config = language.config
    words, kinds = config.optional_integer("draft_vocab_size"), language.layer_types
    count, whole = language.num_hidden_layers, target.positive("vocab_size")
    if words is None:
        raise _refuses("Laguna DFlash config requires `draft_vocab_size`.")
    if words != whole:
        raise _refuses(
            "Laguna DFlash shares the target lm_head and requires `draft_vocab_size` to match the "
            f"target vocabulary size ({words} != {whole})."
        )
    if kinds is None:
        raise _refuses("Laguna DFlash config requires `layer_types`.")
    if len(kinds) != count:
        raise _refuses(
            f"DFlash layer_types length {len(kinds)} does not match num_hidden_layers {count}."
        )
    if len(set(kinds)) > 1:
        raise _refuses(
            f"Laguna DFlash drafter requires a uniform `layer_types` (got {sorted(set(kinds))}).",
            error_type="NotImplementedError",
        )


def _refuses(message: str, error_type: str = "ValueError") -> EngineRefusalError:
    return EngineRefusalError(stage="model_error", error_type=error_type, message=message)


def gemma4(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Gemma 4 layers, numbered from the draft's first one, with caches of their own."""
    values = {**language.config.values, "num_kv_shared_layers": 0}
    own = Language.of(HfConfig(values, language.config.origin, language.config.path))
    return [
        replace(layer, name=BEHIND.format(index), decoder_layer=0)
        for index, layer in enumerate(GEMMA4.some_layers(own, range(own.num_hidden_layers)))
    ]


FAMILY_HEADS: Final[Mapping[str, Head]] = {
    "DFlashMuseGlimmerAssistantModel": Head(layers=muse_glimmer, non_causal=muse_is_non_causal),
    "DFlashLagunaForCausalLM": Head(layers=laguna, non_causal=any_non_causal),
    "EagleCohereForCausalLM": Head(layers=cohere),
    "EagleLlama4ForCausalLM": Head(layers=llama4),
    "EagleMistralLarge3ForCausalLM": Head(layers=mistral_large_3),
    "Gemma4DSparkModel": Head(layers=gemma4, non_causal=any_non_causal),
    "K3DSparkModel": Head(layers=kimi_k3, non_causal=any_non_causal),
}
