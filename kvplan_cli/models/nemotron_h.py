"""Nemotron-H: a pattern of Mamba 2, attention, dense and expert layers.

Source: vLLM 0.33.0 ``models/nemotron_h.py`` and transformers 5.20.2 ``NemotronHConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.models.architecture import Decoder
from kvplan_cli.models.hybrid import HybridLayout, Part
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, window_reach
from kvplan_cli.models.state_dims import nemotron_h

_PATTERN: Final = "hybrid_override_pattern"
_BY_LETTER: Final[Mapping[str, Part]] = {
    "M": Part.STATE,
    "*": Part.ATTENTION,
    "E": Part.NOTHING,
    "-": Part.NOTHING,
}
_BY_KIND: Final[Mapping[str, Part]] = {
    "linear_attention": Part.STATE,
    "mamba": Part.STATE,
    "full_attention": Part.ATTENTION,
    "attention": Part.ATTENTION,
    "moe": Part.NOTHING,
    "mlp": Part.NOTHING,
}


def pattern_parts(language: Language) -> Sequence[Part]:
    """One part a letter of the pattern, or an entry of the list, which wins."""
    config = language.config
    key = language.key("layers_block_type")
    kinds = config.optional_list(key)
    if kinds is not None:
        if not all(isinstance(kind, str) and kind in _BY_KIND for kind in kinds):
            raise config.wrong(key, f"a list of {', '.join(_BY_KIND)}")
        return [_BY_KIND[kind] for kind in kinds]
    pattern = config.optional_text(_PATTERN)
    if pattern is None:
        raise MissingFieldError(config.where("layers_block_type"), config.origin)
    if not set(pattern) <= set(_BY_LETTER):
        raise config.wrong(_PATTERN, f"letters of {''.join(_BY_LETTER)}")
    return [_BY_LETTER[letter] for letter in pattern]


def one_window(language: Language) -> Sequence[Reach]:
    """The model's window in all attention layers, where it has one."""
    return [window_reach(language.sliding_window)] * len(pattern_parts(language))


NEMOTRON_H: Final = HybridLayout(
    parts=pattern_parts,
    state=nemotron_h,
    state_name="model.layers.{}.mixer",
    attention=Decoder(layer_name="model.layers.{}.mixer.attn", reach=one_window),
)
