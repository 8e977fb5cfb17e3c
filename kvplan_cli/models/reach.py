"""Which tokens each layer attends to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import SLIDING, no_rope_layers
from kvplan_cli.models.shape import AttentionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Full attention, or a window or chunk of so many tokens."""

    kind: AttentionKind = AttentionKind.FULL
    sliding_window: int | None = None
    attention_chunk_size: int | None = None


FULL_REACH = Reach()
ReachRule = Callable[[Language], Sequence[Reach]]


def window_reach(window: int | None) -> Reach:
    """A window of ``window`` tokens; None is full attention."""
    if window is None:
        return FULL_REACH
    return Reach(kind=AttentionKind.SLIDING, sliding_window=window)


def windows(language: Language, own: Iterable[int | None]) -> Sequence[Reach]:
    """One reach a layer: its own window, or the model's where it has none.

    Source: vLLM 0.33.0 ``layers/attention/attention.py:Attention.__init__``.
    """
    fallback = language.model_window
    return [window_reach(fallback if window is None else window) for window in own]


def model_wide(language: Language) -> Sequence[Reach]:
    """Layers that declare no window themselves."""
    return windows(language, [None] * language.num_hidden_layers)


def by_layer_types(language: Language) -> Sequence[Reach]:
    """Layers of kind ``sliding_attention`` have the window, where there are kinds at all."""
    kinds = language.layer_types
    if kinds is None:
        return model_wide(language)
    window = language.sliding_window if SLIDING in kinds else None
    return windows(language, [window if kind == SLIDING else None for kind in kinds])


def alternating(language: Language) -> Sequence[Reach]:
    """Even layers slide, whatever the declared kinds."""
    window = language.sliding_window
    return windows(
        language,
        [None if index % 2 else window for index in range(language.num_hidden_layers)],
    )


def chunked_with_rope(language: Language) -> Sequence[Reach]:
    """Layers with rotary positions attend in chunks of ``attention_chunk_size`` tokens."""
    ropes = no_rope_layers(language.config, language.num_hidden_layers)
    chunk = language.config.nullable_integer("attention_chunk_size", minimum=1)
    if chunk is None:
        return model_wide(language)
    chunked = Reach(kind=AttentionKind.CHUNKED, attention_chunk_size=chunk)
    plain = window_reach(language.model_window)
    return [chunked if rope else plain for rope in ropes]
