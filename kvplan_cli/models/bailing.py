"""Bailing 2.5 and 3: linear or delta attention beside latent attention.

Source: vLLM 0.33.0 ``models/bailing_moe_linear.py``, ``models/bailing_moe_v3.py`` and
transformers 5.20.2 ``BailingHybridConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.architecture import largest_of_layers
from kvplan_cli.models.hybrid import HybridLayout, Part
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent_stack import LatentStack
from kvplan_cli.models.recurrent import DeltaAttentionState, LinearAttentionState


def _head_dim(language: Language) -> int:
    """The class of a flat config has the rotary size for it, that of a language part its own."""
    key = "head_dim" if language.config.path else "qk_rope_head_dim"
    return language.config.positive(key)


def _linear_state(language: Language) -> LinearAttentionState:
    return LinearAttentionState(
        num_heads=language.num_attention_heads,
        head_dim=_head_dim(language),
        norm_groups=language.config.optional_integer("group_norm_size") or 1,
    )


def _delta_state(language: Language) -> DeltaAttentionState:
    if language.config.optional_boolean("no_kda_lora") is not True:
        raise EngineRefusalError(
            stage="model_error",
            error_type="ValueError",
            message="BailingMoeV3 KDA currently expects no_kda_lora=True",
        )
    return DeltaAttentionState(
        num_heads=language.num_attention_heads,
        head_dim=_head_dim(language),
        conv_kernel=language.config.positive("short_conv_kernel_size"),
        layer_reads_dtype=False,
        model_reads_dtype=False,
    )


def _last_of_group(language: Language) -> Sequence[Part]:
    group = language.config.positive("layer_group_size")
    return [
        Part.STATE if (index + 1) % group else Part.ATTENTION
        for index in range(language.num_hidden_layers)
    ]


def _last_of_group_and_rest(language: Language) -> Sequence[Part]:
    """The layers behind the last whole group attend, too."""
    parts = _last_of_group(language)
    rest = len(parts) % language.config.positive("layer_group_size")
    return [*parts[: len(parts) - rest], *[Part.ATTENTION] * rest]


BAILING_2_5: Final = HybridLayout(
    parts=_last_of_group,
    state=_linear_state,
    state_name="model.layers.{}.self_attn",
    attention=LatentStack("model.layers.{}.self_attn.attn"),
    dims=largest_of_layers,
)
BAILING_3: Final = replace(BAILING_2_5, parts=_last_of_group_and_rest, state=_delta_state)
