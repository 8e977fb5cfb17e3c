"""Latent attention in some layers of a stack, beside recurrent states."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import latent_layer
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True)
class LatentStack:
    """Dense latent layers. layer_name: the engine's name of the one in layer ``{}``."""

    layer_name: str

    def some_layers(self, language: Language, indices: Sequence[int]) -> tuple[CacheLayer, ...]:
        """The layers of ``indices``, in order, unsharded."""
        return tuple(
            latent_layer(language, index, self.layer_name.format(index)) for index in indices
        )
