"""Heads and small models that draft with the target's hidden states, by the engine's class.

Source: vLLM 0.33.0 ``vllm/transformers_utils/configs/eagle.py`` for the names, and
``vllm/model_executor/models/{llama_eagle,llama_eagle3,qwen3_eagle3,mistral_eagle,llama4_eagle,
deepseek_eagle,deepseek_eagle3,minicpm_eagle,qwen3_dflash,qwen3_dspark}.py`` for the layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.deepseek_v4 import uncompressed_layers
from kvplan_cli.models.deepseek_v41 import drafting_layers
from kvplan_cli.models.drafters.draft import BEHIND, Place
from kvplan_cli.models.drafters.family_heads import FAMILY_HEADS
from kvplan_cli.models.drafters.head import Head, any_non_causal, dflash, own_windows, stack
from kvplan_cli.models.gemma import GEMMA4
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import latent_layer
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.llama_like import GROUPED, SPLIT
from kvplan_cli.models.shape import CacheLayer

# Stages of a DeepSeek V4 draft whose config does not count them.
_DSPARK_STAGES: Final = 3


def eagle3(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Llama or Qwen 3 layers, their kinds counted from the draft's first one."""
    return stack(language, GROUPED, place.num_hidden_layers, own_windows(language), place)


def eagle(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Llama layers numbered behind the last stage's, kinds looked up by that number."""
    kinds, first = language.layer_types or None, place.stage_layers
    windows: list[int | None] = []
    for number in range(first, first + language.num_hidden_layers):
        if kinds is not None and number >= len(kinds):
            raise EngineRefusalError(
                stage="model_error",
                error_type="AssertionError",
                message=f"effective_layer_idx: {number} is out of bounds for layer_types: "
                f"{list(kinds)}",
            )
        sliding = kinds is not None and kinds[number] == SLIDING
        windows.append(language.sliding_window if sliding else None)
    return stack(language, GROUPED, first, windows, place)


def eagle_minicpm(language: Language, place: Place) -> Sequence[CacheLayer]:
    """MiniCPM layers under a name of their own."""
    windows = [None] * language.num_hidden_layers
    name = "model.eagle_layers.{}.self_attn.attn"
    return stack(language, SPLIT, place.stage_layers, windows, place, name)


def latent_eagle3(language: Language, place: Place) -> Sequence[CacheLayer]:
    """DeepSeek layers of latent attention."""
    return _latent(language, place.num_hidden_layers)


def latent_eagle(language: Language, place: Place) -> Sequence[CacheLayer]:
    """The same, numbered behind the last stage's."""
    return _latent(language, place.stage_layers)


def _latent(language: Language, first: int) -> Sequence[CacheLayer]:
    return [
        latent_layer(language, 0, BEHIND.format(first + index))
        for index in range(language.num_hidden_layers)
    ]


def dspark_deepseek(language: Language, place: Place) -> Sequence[CacheLayer]:
    """DeepSeek V4's own stages: a window each."""
    # The engine asks for it first, and stops without.
    language.config.list("dspark_target_layer_ids")
    stages = language.config.optional_integer("n_mtp_layers", minimum=0) or _DSPARK_STAGES
    return [
        layer
        for stage in range(stages)
        for layer in uncompressed_layers(language, place.num_hidden_layers + stage)
    ]


def dspark_deepseek_v41(language: Language, place: Place) -> Sequence[CacheLayer]:
    """DeepSeek V4.1's own stages: a window each."""
    config = language.config
    config.list("dspark_target_layer_ids")
    stages = config.optional_integer("n_mtp_layers", minimum=0) or config.optional_integer(
        "num_nextn_predict_layers", minimum=0
    )
    return [
        layer
        for stage in range(stages or _DSPARK_STAGES)
        for layer in drafting_layers(language, place.num_hidden_layers + stage)
    ]


def gemma4_assistant(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Gemma 4's assistant: each layer reads the cache of the target's last one of its kind.

    Source: vLLM 0.33.0 ``v1/worker/gpu/spec_decode/gemma4/speculator.py``.
    """
    values = {**language.config.values, "num_kv_shared_layers": 0}
    own = Language.of(HfConfig(values, language.config.origin, language.config.path))
    owners = _last_owner_by_kind(place)
    kinds = own.required_layer_types
    made = GEMMA4.some_layers(own, range(own.num_hidden_layers))
    return [
        replace(
            layer,
            name=f"draft_model.layers.{index}.self_attn.attn",
            kv_sharing_target=owners.get(kinds[index]),
        )
        for index, layer in enumerate(made)
    ]


def _last_owner_by_kind(place: Place) -> Mapping[str, str]:
    target = place.target
    shared = target.config.optional_integer("num_kv_shared_layers", minimum=0) or 0
    kinds = target.required_layer_types[: target.num_hidden_layers - shared]
    return {kind: place.attention_names[index] for index, kind in enumerate(kinds)}


_EAGLE: Final = Head(layers=eagle)
_EAGLE3: Final = Head(layers=eagle3)
_DFLASH: Final = Head(layers=dflash, non_causal=any_non_causal)

HEADS: Final[Mapping[str, Head]] = {
    **dict.fromkeys(("EagleLlamaForCausalLM", "EagleMistralForCausalLM"), _EAGLE),
    "EagleMiniCPMForCausalLM": Head(layers=eagle_minicpm),
    "EagleDeepSeekMTPModel": Head(layers=latent_eagle),
    **dict.fromkeys(
        (
            "Eagle3LlamaForCausalLM",
            "Eagle3MiniMaxM2ForCausalLM",
            "Eagle3Qwen2_5vlForCausalLM",
            "Eagle3Qwen3ForCausalLM",
            "Eagle3Qwen3vlForCausalLM",
            "LlamaForCausalLMEagle3",
            "PeagleLlamaForCausalLM",
            "PeagleQwen3ForCausalLM",
        ),
        _EAGLE3,
    ),
    **dict.fromkeys(
        ("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM"),
        Head(layers=latent_eagle3),
    ),
    **dict.fromkeys(
        (
            "DFlash2BeamDraftModel",
            "DFlash2DraftModel",
            "DFlashDraftModel",
            "DFlashQwen3XPressModel",
            "LiLiCorrDraftModel",
            "Qwen3DSparkModel",
            "Qwen3OmniDSparkModel",
        ),
        _DFLASH,
    ),
    "DSparkDraftModel": Head(layers=dspark_deepseek),
    "DSparkV41DraftModel": Head(layers=dspark_deepseek_v41),
    "Gemma4MTPModel": Head(layers=gemma4_assistant, as_model=True),
    **FAMILY_HEADS,
}
