"""Architectures that the engine runs through the Transformers library's own modules.

Source: vLLM 0.33.0 ``models/transformers/base.py:_create_attention_instances``: heads and
sizes of the config as a whole, windows by ``layer_types``, names of the library's modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError, MissingFieldError
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped, multimodal, rows
from kvplan_cli.models.flags import soft_capped, soft_capped_by_default
from kvplan_cli.models.heads import equal_heads, multi_query_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import LINEAR
from kvplan_cli.models.reach import Reach, by_layer_types

# Types whose embedding has no padding, and those whose class has a large padding token.
_UNPADDED: Final = frozenset({"gpt2", "gpt_bigcode", "gpt_neox"})
_PADDED_BY_DEFAULT: Final = frozenset({"flex_olmo", "glm", "glm4", "phi3", "smollm3"})


def library_reach(language: Language) -> Sequence[Reach]:
    """As ``by_layer_types``; EngineRefusalError where the library's embedding can't be built."""
    config = language.config
    model_type = config.optional_text("model_type")
    if model_type in _PADDED_BY_DEFAULT and "pad_token_id" not in config.values:
        raise MissingFieldError(config.where("pad_token_id"), config.origin)
    pad = config.raw("pad_token_id")
    if isinstance(pad, int) and model_type not in _UNPADDED:
        words = config.positive("vocab_size")
        if not -words <= pad < words:
            raise EngineRefusalError(
                stage="model_error",
                error_type="AssertionError",
                message="Padding_idx must be within num_embeddings",
                way_out=f"pad_token_id {pad} lies beyond vocab_size {words}: mend the config",
            )
    return by_layer_types(language)


def dispatched(language: Language) -> Sequence[Reach]:
    """As ``library_reach``; EngineRefusalError for a layer that is not attention."""
    for index, kind in enumerate(language.layer_types or ()):
        if not kind.endswith("_attention") or kind == LINEAR:
            raise _undispatched(f"{index} ({kind})")
    return library_reach(language)


def undispatched(language: Language) -> Sequence[Reach]:
    """For classes whose modules pass the library's attention interface by."""
    kinds = language.layer_types
    raise _undispatched(f"0 ({kinds[0]})" if kinds else "0")


def _undispatched(layer: str) -> EngineRefusalError:
    return EngineRefusalError(
        stage="model_error",
        error_type="ValueError",
        message=f"Layer {layer} does not dispatch through the Transformers attention interface "
        "and vLLM has no other way to handle it.",
    )


# The library's language part inside a multimodal model, named from its own layers on.
_PART: Final = Decoder(
    layer_name="layers.{}.self_attn.attn", reach=library_reach, soft_cap=soft_capped
)
PLAIN: Final = Decoder(reach=library_reach, soft_cap=soft_capped)

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
        Decoder(reach=library_reach, soft_cap=soft_capped_by_default),
        "VaultGemmaForCausalLM",
    ),
    *multimodal(Wrapped(inner=_PART, prefix="model.text_model."), "Emu3ForConditionalGeneration"),
    *multimodal(
        Wrapped(inner=_PART, prefix="model.language_model."),
        "HunYuanVLForConditionalGeneration",
        "VibeVoiceAsrForConditionalGeneration",
    ),
)
