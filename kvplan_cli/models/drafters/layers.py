"""The layers that a drafter keeps beside its target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.draft import Place
from kvplan_cli.models.drafters.head import Head
from kvplan_cli.models.drafters.heads import HEADS
from kvplan_cli.models.drafters.modules import module_architectures
from kvplan_cli.models.language import Language
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import AttentionLayer, CacheLayer, ModelShape
from kvplan_cli.models.text import text_config

# The engine builds a draft model of its own under this name.
_PREFIX: Final = "draft_model."


def head_layers(
    architectures: Sequence[str], config: HfConfig, place: Place
) -> Sequence[CacheLayer]:
    """The layers of a head with ``config``, numbered by its place behind the target."""
    return _head(architectures).layers(Language.of(text_config(config)), place)


def head_is_non_causal(architectures: Sequence[str], config: HfConfig) -> bool:
    """Whether a head asks for a backend that attends both ways."""
    return _head(architectures).non_causal(Language.of(text_config(config)))


def known_drafters() -> frozenset[str]:
    """The engine's classes of drafters that can be planned."""
    return frozenset(HEADS) | module_architectures() | {"ExtractHiddenStatesModel"}


def is_head(architectures: Sequence[str]) -> bool:
    """Whether any of the engine's classes is in the table of heads."""
    return any(name in HEADS for name in architectures)


def head_is_a_model(architectures: Sequence[str]) -> bool:
    """Whether the engine builds a head by its own sizes."""
    return _head(architectures).as_model


def draft_model_shape(config: HfConfig) -> ModelShape:
    """A whole model that drafts, under the name that sets it apart from the target."""
    shape = model_shape(config)
    return replace(shape, layers=tuple(_prefixed(layer) for layer in shape.layers))


def _head(architectures: Sequence[str]) -> Head:
    return next(HEADS[name] for name in architectures if name in HEADS)


def _prefixed(layer: CacheLayer) -> CacheLayer:
    name = _under_prefix(layer.name)
    if not isinstance(layer, AttentionLayer) or layer.kv_sharing_target is None:
        return replace(layer, name=name)
    return replace(layer, name=name, kv_sharing_target=_under_prefix(layer.kv_sharing_target))


def _under_prefix(name: str) -> str:
    first, _, rest = name.partition(".")
    # Layers numbered right behind the first part take the prefix for that part.
    numbered = rest.partition(".")[0].isdecimal()
    return _PREFIX + (rest if numbered else f"{first}.{rest}")
