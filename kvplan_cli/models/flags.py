"""Yes or no of a model's layers, as its config says."""

from __future__ import annotations

from collections.abc import Callable

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach
from kvplan_cli.models.shape import AttentionKind

Flag = Callable[[Language], bool]
FlagByReach = Callable[[Language, Reach], bool]


def never(language: Language) -> bool:
    return False


def always(language: Language) -> bool:
    return True


def no_sink(language: Language, reach: Reach) -> bool:
    return False


def always_sink(language: Language, reach: Reach) -> bool:
    return True


def causal_unless_switched_off(language: Language) -> bool:
    """``is_causal: false`` in the config turns a decoder into an encoder."""
    return language.config.optional_boolean("is_causal") is not False


def soft_capped(language: Language) -> bool:
    """``attn_logit_softcapping`` caps the attention's logits; absent means no cap."""
    return language.config.optional_number("attn_logit_softcapping") is not None


def soft_capped_by_default(language: Language) -> bool:
    """The same for classes with a cap by default."""
    config = language.config
    if "attn_logit_softcapping" not in config.values:
        raise MissingFieldError(config.where("attn_logit_softcapping"), config.origin)
    return soft_capped(language)


def has_alibi(language: Language) -> bool:
    """``alibi: true`` in the config."""
    return bool(language.config.optional_boolean("alibi"))


def granite_sink(language: Language, reach: Reach) -> bool:
    """Granite's sliding variants have sinks unless ``attention_sinks`` says otherwise."""
    declared = language.config.optional_boolean("attention_sinks")
    return language.layer_types is not None if declared is None else declared


def laguna_sink(language: Language, reach: Reach) -> bool:
    """Sinks of sliding layers, with ``swa_attention_sink_enabled``."""
    enabled = language.config.optional_boolean("swa_attention_sink_enabled")
    return bool(enabled) and reach.kind is AttentionKind.SLIDING


def mimo_sink(language: Language, reach: Reach) -> bool:
    """Sinks of sliding layers, with ``add_swa_attention_sink_bias``."""
    enabled = language.config.optional_boolean("add_swa_attention_sink_bias")
    return bool(enabled) and reach.kind is AttentionKind.SLIDING
