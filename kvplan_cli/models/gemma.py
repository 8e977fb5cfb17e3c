"""Gemma: windows of two kinds of layers, cache sharing (3n, 4), wider full layers (4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import (
    Architecture,
    Decoder,
    Wrapped,
    multimodal,
    pooling,
    rows,
)
from kvplan_cli.models.flags import (
    causal_unless_switched_off,
    never,
    soft_capped,
    soft_capped_by_default,
)
from kvplan_cli.models.heads import Heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, by_layer_types
from kvplan_cli.models.shape import AttentionKind, MultimodalItem, RunnerType

# The width of Gemma 4's full attention heads where the file has none.
# Source: transformers 5.20.2 ``configuration_gemma4.py:Gemma4TextConfig``.
_GLOBAL_HEAD_DIM: Final = 512
# A frame has 70 tokens, and 8 around them.
# Source: vLLM 0.33.0 ``models/gemma4_mm.py:get_mm_max_tokens_per_item``.
_VIDEO: Final = MultimodalItem(modality="video", tokens=70 + 8, frames=32)
# Of the classes with Gemma 4's layers, those without the switch always take the global number.
_UNGATED: Final = ("diffusion_gemma_text", "embedding_gemma2_text")


def gemma4_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Full attention layers have a width, and may have a number of KV heads, of their own."""
    kinds = language.layer_types
    full = kinds is not None and kinds[index] == "full_attention"
    override = gemma4_override(language.config, index, full=full)
    kv_heads = override.optional_integer("num_key_value_heads", minimum=1)
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads if kv_heads is None else kv_heads,
        head_size=override.optional_integer("head_dim", minimum=1) or language.head_dim,
    )


def gemma4_override(config: HfConfig, index: int, *, full: bool) -> HfConfig:
    """What layer ``index`` has of its own, of heads and widths."""
    per_layer = config.optional_section("per_layer_config")
    if per_layer is not None:
        for key in per_layer.values:
            if str(key).isdigit() and int(key) == index:
                return per_layer.section(str(key))
        return HfConfig({}, config.origin, config.where("per_layer_config"))
    values: dict[str, Any] = {}
    if full:
        width = config.optional_integer("global_head_dim", minimum=1)
        values["head_dim"] = _GLOBAL_HEAD_DIM if width is None else width
        gated = config.optional_text("model_type") not in _UNGATED
        if not gated or config.optional_boolean("attention_k_eq_v"):
            key = "num_global_key_value_heads"
            values["num_key_value_heads"] = config.optional_integer(key, minimum=1)
    return HfConfig(values, config.origin, config.path)


def _first_shared(language: Language, shared: int) -> int:
    layers = language.num_hidden_layers
    if shared > layers:
        reason = f"{shared} of {layers} layers"
        raise language.contradiction("num_kv_shared_layers", reason)
    return layers - shared


def share_two_last(language: Language, reaches: Sequence[Reach]) -> Sequence[int | None]:
    """Gemma 3n: the last layers use the caches of the two layers before them.

    Source: vLLM 0.33.0 ``models/gemma3n.py:Gemma3nAttention``.
    """
    first = _first_shared(language, language.config.integer("num_kv_shared_layers"))
    targets: list[int | None] = [None] * first
    for reach in reaches[first:]:
        target = first - (2 if reach.kind is AttentionKind.SLIDING else 1)
        targets.append(target if target >= 0 else None)
    return targets


def share_last_of_kind(language: Language, reaches: Sequence[Reach]) -> Sequence[int | None]:
    """Gemma 4: the last layers use the cache of the last unshared layer of their kind.

    Source: vLLM 0.33.0 ``models/gemma4.py:Gemma4Attention``.
    """
    shared = language.config.optional_integer("num_kv_shared_layers", minimum=0) or 0
    first = _first_shared(language, shared)
    kinds = language.layer_types or []
    targets: list[int | None] = [None] * first
    for index in range(first, len(reaches)):
        owners = [owner for owner in range(first) if kinds[owner] == kinds[index]]
        if not owners:
            raise language.contradiction(
                "num_kv_shared_layers", f"no unshared layer is {kinds[index]}, as layer {index}"
            )
        targets.append(owners[-1])
    return targets


def _gemma4_modalities(config: HfConfig) -> tuple[str, ...]:
    return ("image", "video", "audio") if config.has("audio_config") else ("image", "video")


def _items(config: HfConfig) -> tuple[MultimodalItem, ...]:
    return (*_images(config, "default_output_length"), _VIDEO)


def _unified_items(config: HfConfig) -> tuple[MultimodalItem, ...]:
    """None where the file does not size its images: the engine then asks for no room at all.

    Source: vLLM 0.33.0 ``models/gemma4_unified.py:get_mm_max_tokens_per_item`` and
    ``engine/arg_utils.py:_get_min_mm_batched_tokens``.
    """
    images = _images(config, "num_soft_tokens")
    return (*images, _VIDEO) if images else ()


def _images(config: HfConfig, key: str) -> tuple[MultimodalItem, ...]:
    vision = config.optional_section("vision_config")
    tokens = None if vision is None else vision.optional_integer(key, minimum=1)
    return () if tokens is None else (MultimodalItem(modality="image", tokens=tokens),)


def _images_and_videos(config: HfConfig) -> tuple[str, ...]:
    return ("image", "video")


def images_only(config: HfConfig) -> tuple[str, ...]:
    """Images and nothing else beside text."""
    return ("image",)


GEMMA2: Final = Decoder(reach=by_layer_types, soft_cap=soft_capped_by_default)
GEMMA3: Final = Decoder(reach=by_layer_types, causal=causal_unless_switched_off)
GEMMA3N: Final = Decoder(reach=by_layer_types, sharing=share_two_last)
GEMMA4: Final = Decoder(
    reach=by_layer_types,
    heads=gemma4_heads,
    sharing=share_last_of_kind,
    soft_cap=soft_capped,
)

ROWS: Final[Sequence[Architecture]] = (
    *rows(Decoder(), "GemmaForCausalLM"),
    *rows(GEMMA2, "Gemma2ForCausalLM", "Gemma2Model"),
    *rows(GEMMA3, "Gemma3ForCausalLM"),
    *pooling(
        replace(GEMMA3, layer_name=".layers.{}.self_attn.attn"),
        "Gemma3TextModel",
        supports_pp=False,
    ),
    *rows(GEMMA3N, "Gemma3nForCausalLM", supports_pp=False),
    *rows(GEMMA4, "Gemma4ForCausalLM"),
    Architecture(
        name="Gemma3ForConditionalGeneration",
        model=Wrapped(inner=GEMMA3),
        is_multimodal=True,
        modalities=images_only,
    ),
    *multimodal(Wrapped(inner=GEMMA3N), "Gemma3nForConditionalGeneration", supports_pp=False),
    Architecture(
        name="Gemma4ForConditionalGeneration",
        model=Wrapped(inner=GEMMA4),
        is_multimodal=True,
        modalities=_gemma4_modalities,
        mm_items=_items,
    ),
    Architecture(
        name="Gemma4UnifiedForConditionalGeneration",
        model=Wrapped(inner=GEMMA4),
        is_multimodal=True,
        modalities=_gemma4_modalities,
        mm_items=_unified_items,
    ),
    Architecture(
        name="DiffusionGemmaForBlockDiffusion",
        model=Wrapped(inner=GEMMA4, prefix=""),
        is_multimodal=True,
        supports_pp=False,
        modalities=_images_and_videos,
        mm_items=_items,
    ),
    Architecture(
        name="EmbeddingGemma2Model",
        model=Wrapped(inner=replace(GEMMA4, causal=never)),
        runner_type=RunnerType.POOLING,
        is_multimodal=True,
        supports_pp=False,
        default_seq_pooling_type="MEAN",
    ),
    Architecture(
        name="PaliGemmaForConditionalGeneration",
        model=Wrapped(),
        is_multimodal=True,
        modalities=images_only,
    ),
)
