"""Architectures that the engine runs through the Transformers library's own modules.

Source: vLLM 0.33.0 ``models/transformers/base.py:_create_attention_instances``: heads and
sizes of the config as a whole, windows by ``layer_types``, names of the library's modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped, multimodal, rows
from kvplan_cli.models.flags import soft_capped, soft_capped_by_default
from kvplan_cli.models.heads import equal_heads, multi_query_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import LINEAR
from kvplan_cli.models.reach import Reach, by_layer_types


def dispatched(language: Language) -> Sequence[Reach]:
    """As ``by_layer_types``; EngineRefusalError for a layer that is not attention."""
    for index, kind in enumerate(language.layer_types or ()):
        if not kind.endswith("_attention") or kind == LINEAR:
            raise EngineRefusalError(
                stage="model_error",
                error_type="ValueError",
                message=f"Layer {index} ({kind}) does not dispatch through the Transformers "
                "attention interface and vLLM has no other way to handle it.",
            )
    return by_layer_types(language)


# The library's language part inside a multimodal model, named from its own layers on.
_PART: Final = Decoder(
    layer_name="layers.{}.self_attn.attn", reach=by_layer_types, soft_cap=soft_capped
)
PLAIN: Final = Decoder(reach=by_layer_types, soft_cap=soft_capped)

ROWS: Final[Sequence[Architecture]] = (
    *rows(
        PLAIN,
        "ArceeForCausalLM",
        "CwmForCausalLM",
        "FlexOlmoForCausalLM",
        "GlmForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "Jais2ForCausalLM",
        "Kolibri1ForCausalLM",
        "MellumForCausalLM",
        "NanbeigeForCausalLM",
        "Olmo2ForCausalLM",
        "Olmo3ForCausalLM",
        "OlmoForCausalLM",
        "PhiForCausalLM",
        "SeedOssForCausalLM",
        "SmolLM3ForCausalLM",
        "Starcoder2ForCausalLM",
    ),
    *rows(
        Decoder(
            layer_name="model.h.{}.attn.attn",
            heads=multi_query_heads,
            soft_cap=soft_capped,
        ),
        "GPTBigCodeForCausalLM",
    ),
    *rows(
        Decoder(
            layer_name="model.layers.{}.attention.attn",
            heads=equal_heads,
            soft_cap=soft_capped,
        ),
        "GPTNeoXForCausalLM",
    ),
    *rows(
        Decoder(reach=dispatched, soft_cap=soft_capped),
        "BambaForCausalLM",
        "MiniMaxForCausalLM",
    ),
    *rows(
        Decoder(reach=by_layer_types, soft_cap=soft_capped_by_default),
        "VaultGemmaForCausalLM",
    ),
    *multimodal(Wrapped(inner=_PART, prefix="model.text_model."), "Emu3ForConditionalGeneration"),
    *multimodal(
        Wrapped(inner=_PART, prefix="model.language_model."),
        "HunYuanVLForConditionalGeneration",
        "VibeVoiceAsrForConditionalGeneration",
    ),
)
