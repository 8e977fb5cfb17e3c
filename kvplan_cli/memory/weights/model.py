"""A whole model on a stage: a language model, and the towers of other modalities before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.heads import score
from kvplan_cli.memory.weights.layers import TIED, Flag, always
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.settings.pipeline import stage_layers
from kvplan_cli.values import dataclass

Tower = Callable[[Site, HfConfig], Tensors]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A multimodal model.

    decoder: its language model; None where the config's language part names its own.
    towers: encoders and projectors, from the whole config. on_every_stage: towers stand on
    each pipeline stage, not only on the first. always_loaded: towers are there even where
    no modality is asked for, as the engine does not mark them. kept: what stands in no tower's
    module, on every stage and whatever modalities are loaded. marks: the same, only where
    towers are loaded. keeps_head: when it pools, it
    has the vocabulary's head as well. tied: whether the whole config ties the head.
    spread: part and key of the encoder's layers, where the engine shares them out over the
    stages, though only the first has an encoder.
    """

    decoder: Decoder | None = None
    towers: tuple[Tower, ...] = ()
    on_every_stage: bool = False
    always_loaded: bool = False
    kept: tuple[Tower, ...] = ()
    marks: tuple[Tower, ...] = ()
    keeps_head: bool = False
    tied: Flag = TIED
    spread: tuple[str, str] | None = None

    def tower_tensors(self, site: Site, config: HfConfig, stage: Stage) -> Tensors:
        """What a rank of ``stage`` holds of the towers."""
        if not (stage.is_first or self.on_every_stage):
            return ()
        config = self._on_first_stage(config, stage)
        return tuple(
            tensor for tower in self.towers for tensor in tower(site.unquantized(), config)
        )

    def _on_first_stage(self, config: HfConfig, stage: Stage) -> HfConfig:
        if self.spread is None or stage.stages == 1:
            return config
        section, key = self.spread
        part = config.section(section)
        kept = stage_layers(part.positive(key), stage.stages, None)[0]
        return config.with_value(section, {**part.values, key: len(kept)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An architecture's weights, ready to be counted.

    A wrapper's own ``tie_word_embeddings`` ties the head as well as its language part's.
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
        with_towers: bool,
        with_head: bool,
    ) -> Tensors:
        """All tensors of a rank of ``stage``. with_head: a pooling model has none."""
        keeps_head = with_head or (self.wrapper is not None and self.wrapper.keeps_head)
        decoder = self.decoder if keeps_head else replace(self.decoder, headless=True)
        labels = score(site, config, text) if self.classifies and not with_head else ()
        if self.wrapper is None:
            return decoder.tensors(site, text, stage, layers) + labels
        if self.wrapper.tied(config):
            decoder = replace(decoder, tied=always)
        tensors = decoder.tensors(site, text, stage, layers) + labels
        loads = with_towers or self.wrapper.always_loaded
        towers = self.wrapper.tower_tensors(site, config, stage) if loads else ()
        kept = tuple(t for part in self.wrapper.kept for t in part(site, config))
        if with_towers:
            kept += tuple(t for part in self.wrapper.marks for t in part(site, config))
        return towers + tensors + kept
