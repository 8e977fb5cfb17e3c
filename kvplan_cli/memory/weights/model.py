"""A whole model on a stage: a language model, and the towers of other modalities before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.heads import score
from kvplan_cli.memory.weights.layers import TIED, Flag, always, never
from kvplan_cli.memory.weights.modalities import Modalities
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.ties import Tying
from kvplan_cli.memory.weights.towers.formats import excepts_none
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.settings.pipeline import stage_layers
from kvplan_cli.values import dataclass

Tower = Callable[[Site, HfConfig], Tensors]
# Whether a prompt may hold an item of a modality.
Serves = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A multimodal model.

    decoder: its language model; None where the config's language part names its own.
    towers: encoders and projectors, from the whole config. served: the modalities of each
    tower, or of all alike; one is left out where a prompt may hold none of its own.
    on_every_stage: towers stand on each pipeline stage, not only on the first. always_loaded:
    towers are there whatever a prompt may hold, as the engine does not mark them. kept: what
    stands in no tower's module, on every stage and whatever modalities are loaded. marks: the
    same, only where towers are loaded. keeps_head: when it pools, it has the vocabulary's head
    as well. tied: whether the whole config ties the head. tying: whether that counts.
    spread: part and key of the encoder's layers, where the engine shares them out over the
    stages, though only the first has an encoder. beside: a file in a folder of the checkpoint
    that holds a tower's config, and the section that the tower finds it in. inputs: what the
    model keeps a place for besides its parameters, for the tokens of a step, on every stage.
    formatted: the places of towers that take the checkpoint's format, where its config excepts
    none.
    """

    decoder: Decoder | None = None
    towers: tuple[Tower, ...] = ()
    served: tuple[Modalities, ...] = ()
    on_every_stage: bool = False
    always_loaded: bool = False
    kept: tuple[Tower, ...] = ()
    marks: tuple[Tower, ...] = ()
    keeps_head: bool = False
    tied: Flag = TIED
    tying: Tying = Tying.EITHER
    spread: tuple[str, str] | None = None
    beside: tuple[str, str] | None = None
    inputs: tuple[Tower, ...] = ()
    formatted: tuple[int, ...] = ()

    def with_files(self, config: HfConfig, extra_files: Mapping[str, Any]) -> HfConfig:
        """The config with what stands in the file beside it."""
        if self.beside is None or self.beside[0] not in extra_files:
            return config
        name, section = self.beside
        return config.with_value(section, extra_files[name])

    def tower_tensors(self, site: Site, config: HfConfig, stage: Stage, serves: Serves) -> Tensors:
        """What a rank of ``stage`` holds of the towers."""
        if not (stage.is_first or self.on_every_stage or site.encodes_everywhere):
            return ()
        config = self._on_first_stage(config, stage)
        formatted = self.formatted if excepts_none(site) else ()
        # Adapters are of the language model's layers.
        site = replace(site, adapters=None)
        return tuple(
            tensor
            for index in self._loaded(serves)
            for tensor in self.towers[index](
                site if index in formatted else site.unquantized(), config
            )
        )

    def _loaded(self, serves: Serves) -> tuple[int, ...]:
        """The places of the towers that are loaded."""
        if self.always_loaded:
            return tuple(range(len(self.towers)))
        served = self.served if len(self.served) > 1 else self.served * len(self.towers)
        pairs = zip(range(len(self.towers)), served, strict=True)
        return tuple(index for index, modalities in pairs if any(map(serves, modalities)))

    def loads_any(self, serves: Serves) -> bool:
        """Whether a start loads any tower that may be left out."""
        return any(serves(modality) for modalities in self.served for modality in modalities)

    def _on_first_stage(self, config: HfConfig, stage: Stage) -> HfConfig:
        if self.spread is None or stage.stages == 1:
            return config
        section, key = self.spread
        part = config.optional_section(section)
        if part is None:
            return config
        kept = stage_layers(part.positive(key), stage.stages, None)[0]
        return config.with_value(section, {**part.values, key: len(kept)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An architecture's weights, ready to be counted.

    classifies: a linear over the labels stands in place of the head.
    """

    decoder: Decoder
    wrapper: Wrapper | None = None
    classifies: bool = False

    def tensors(
        self,
        site: Site,
        config: HfConfig,
        text: HfConfig,
        stage: Stage,
        layers: Sequence[CacheLayer],
        *,
        serves: Serves,
        with_head: bool,
    ) -> Tensors:
        """All tensors of a rank of ``stage``.

        serves: whether a prompt may hold an item of a modality. with_head: a pooling model has
        none.
        """
        keeps_head = with_head or (self.wrapper is not None and self.wrapper.keeps_head)
        decoder = self.decoder if keeps_head else replace(self.decoder, headless=True)
        labels = score(site, config, text) if self.classifies and not with_head else ()
        if self.wrapper is None:
            return decoder.tensors(site, text, stage, layers) + labels
        tied = self.wrapper.tying.of(config, self.wrapper.tied)
        if tied is not None:
            decoder = replace(decoder, tied=always if tied else never)
        tensors = decoder.tensors(site, text, stage, layers) + labels
        towers = self.wrapper.tower_tensors(site, config, stage, serves)
        kept = tuple(t for part in self.wrapper.kept for t in part(site, config))
        if self.wrapper.loads_any(serves):
            kept += tuple(t for part in self.wrapper.marks for t in part(site, config))
        return towers + tensors + kept
