"""What a row of the tables of heads is, and the layers of a stack put behind a target's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.architecture import Decoder
from kvplan_cli.models.drafters.draft import BEHIND, Place, layer_like
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.llama_like import GROUPED
from kvplan_cli.models.reach import window_reach
from kvplan_cli.models.shape import AttentionLayer, CacheLayer
from kvplan_cli.values import dataclass

HeadRule = Callable[[Language, Place], Sequence[CacheLayer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One class of draft heads.

    layers: of the draft's language config, behind the target's. non_causal: whether any of
    them attends both ways, so that their backend must be able to. as_model: the engine builds
    it as a model of its own, by its own sizes.
    """

    layers: HeadRule
    non_causal: Callable[[Language], bool] = lambda language: False
    as_model: bool = False


def stack(
    language: Language,
    decoder: Decoder,
    first: int,
    windows: Sequence[int | None],
    place: Place,
    name: str = BEHIND,
) -> Sequence[AttentionLayer]:
    """Layers numbered from ``first``; one without a window of its own has the target's."""
    return [
        layer_like(
            decoder,
            language,
            name.format(first + index),
            window_reach(place.window if window is None else window),
        )
        for index, window in enumerate(windows)
    ]


def own_windows(language: Language) -> Sequence[int | None]:
    """Windows by the draft's own ``layer_types``."""
    count = language.num_hidden_layers
    kinds = language.layer_types or [""] * count
    return [language.sliding_window if kind == SLIDING else None for kind in kinds[:count]]


def dflash(language: Language, place: Place) -> Sequence[CacheLayer]:
    """Qwen 3 layers that read a block of masks at once, some of them under a window.

    Raises EngineRefusalError for a window without a size.
    """
    section = language.config.optional_section("dflash_config")
    forced = bool(section and section.optional_boolean("use_swa"))
    kinds, count = language.layer_types, language.num_hidden_layers
    if kinds is None or (forced and SLIDING not in kinds):
        slides = [forced] * count
    else:
        slides = [kind == SLIDING for kind in kinds[:count]]
    own = section.optional_integer("swa_window_size", minimum=1) if section else None
    window = own
    if any(slides) and window is None:
        window = language.sliding_window
        if window is None:
            raise EngineRefusalError(
                stage="model_error",
                error_type="ValueError",
                message="DFlash sliding attention requires a window size configured in "
                "dflash_config.swa_window_size or the top-level sliding_window.",
            )
    windows = [window if slide else None for slide in slides]
    return stack(language, GROUPED, place.num_hidden_layers, windows, place)


def any_non_causal(language: Language) -> bool:
    """Whether any layer of a DFlash draft attends both ways.

    Source: vLLM 0.33.0 ``model_executor/models/qwen3_dflash.py:_dflash_layer_causal``.
    """
    config = language.config
    stated = config.optional_boolean("is_causal")
    if stated is None:
        section = config.optional_section("dflash_config")
        stated = section.optional_boolean("causal") if section else None
    if stated is not None:
        return not stated and language.num_hidden_layers > 0
    kinds = language.layer_types
    return not kinds or any(kind != SLIDING for kind in kinds[: language.num_hidden_layers])
