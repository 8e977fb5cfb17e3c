"""Which tokens each layer attends to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import SLIDING, no_rope_layers
from kvplan_cli.models.shape import AttentionKind
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Full attention, or a window or chunk of so many tokens, or so many sink tokens."""

    kind: AttentionKind = AttentionKind.FULL
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    rswa_window: int | None = None
    sink_len: int | None = None


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


def unwindowed(language: Language) -> Sequence[Reach]:
    """Full attention whatever the config says."""
    return [FULL_REACH] * language.num_hidden_layers


def qwen_wide(language: Language) -> Sequence[Reach]:
    """Qwen2 and 3: a window for all layers or for none.

    Source: vLLM 0.33.0 ``models/qwen2.py:Qwen2Model``.
    """
    kinds = language.layer_types
    if kinds is not None and len(set(kinds)) > 1:
        layers, windowed = language.num_hidden_layers, language.config.integer("max_window_layers")
        if windowed != layers:
            raise EngineRefusalError(
                stage="model_error",
                error_type="AssertionError",
                message="Sliding window for some but all layers is not supported. This model "
                f"uses sliding window but `max_window_layers` = {windowed} is less than "
                f"`num_hidden_layers` = {layers}. Please open an issue to discuss this feature.",
            )
    return model_wide(language)


def _own_windows(language: Language, extra: int = 0) -> Sequence[int | None]:
    kinds = language.layer_types
    if kinds is None or SLIDING not in kinds:
        return [None] * language.num_hidden_layers
    window = language.sliding_window
    if window is not None:
        window += extra
    return [window if kind == SLIDING else None for kind in kinds]


def by_layer_types(language: Language) -> Sequence[Reach]:
    """Layers of kind ``sliding_attention`` have the window, where there are kinds at all."""
    return windows(language, _own_windows(language))


def by_layer_types_inclusive(language: Language) -> Sequence[Reach]:
    """The same where the config's window does not count the token itself (Cohere)."""
    if language.layer_types is None:
        return model_wide(language)
    if SLIDING in language.layer_types and language.sliding_window is None:
        # The engine adds one to it without asking.
        raise language.contradiction(
            "sliding_window", "sliding_attention layers need a window, there is none"
        )
    return windows(language, _own_windows(language, extra=1))


def by_layer_types_alone(language: Language) -> Sequence[Reach]:
    """As ``by_layer_types``, in models that switch the model's own window off."""
    return [window_reach(window) for window in _own_windows(language)]


def alternating(language: Language) -> Sequence[Reach]:
    """Even layers slide, whatever the declared kinds."""
    window = language.sliding_window
    return windows(
        language,
        [None if index % 2 else window for index in range(language.num_hidden_layers)],
    )


def chunked_with_rope(language: Language) -> Sequence[Reach]:
    """Layers with rotary positions attend in chunks of ``attention_chunk_size`` tokens.

    Source: vLLM 0.33.0 ``models/llama4.py:Llama4Attention``.
    """
    ropes = no_rope_layers(language.config, language.num_hidden_layers)
    plain = window_reach(language.model_window)
    if not any(ropes):
        return [plain] * len(ropes)
    chunk = language.config.nullable_integer("attention_chunk_size", minimum=0)
    if not chunk:
        return [plain] * len(ropes)
    chunked = Reach(kind=AttentionKind.CHUNKED, attention_chunk_size=chunk)
    return [chunked if rope else plain for rope in ropes]


def window_list(key: str) -> ReachRule:
    """An explicit list of windows, one a layer, null for full attention."""

    def rule(language: Language) -> Sequence[Reach]:
        listed = language.config.list(key)
        if len(listed) != language.num_hidden_layers or any(
            window is not None and (isinstance(window, bool) or not isinstance(window, int))
            for window in listed
        ):
            raise language.config.wrong(key, "a window in tokens or null for each layer")
        return windows(language, listed)

    return rule
