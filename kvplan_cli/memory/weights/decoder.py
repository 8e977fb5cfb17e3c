"""A decoder: embedding, layers, final norm and head, spread over pipeline stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import LLAMA_ATTENTION
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import (
    HIDDEN,
    TIED,
    VOCABULARY,
    Flag,
    LayerFacts,
    Part,
    Size,
    never,
    nothing,
    size,
)
from kvplan_cli.memory.weights.norms import TWO_NORMS, Norm
from kvplan_cli.memory.weights.ranks import VOCABULARY_PADDING, Site
from kvplan_cli.memory.weights.rope import TABLES, Rope, rope_of
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.units import round_up
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A pipeline stage: its decoder layers, whether it is the first or the last, of how many."""

    layers: range
    is_first: bool
    is_last: bool
    stages: int = 1


def no_extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return ()


_POSITIONS: Final = "max_position_embeddings"
Extras = Callable[[Site, HfConfig, Stage], Tensors]


def all_of(*extras: Extras) -> Extras:
    """Several extras as one."""

    def tensors(site: Site, config: HfConfig, stage: Stage) -> Tensors:
        return tuple(tensor for each in extras for tensor in each(site, config, stage))

    return tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """How an architecture's language model differs from Llama's. A row of the tables.

    attention, feed_forward, norms, beside: the parts of each layer. rope: its tables.
    vocabulary: rows of the embedding. word_width: columns of the head. tied: the head is the
    embedding. head_bias: of the head.
    everywhere: embedding, final norm and head stand on every stage, needed or not.
    norm_everywhere: the same of the final norm, where it differs.
    capped_positions: rotary tables end at the longest request.
    headless: the head is dropped, as for pooling. embedding_everywhere: every stage has
    the embedding, though not the head.
    ends: the embedding and the final norm, where they differ. extras: whatever else a stage
    holds.
    """

    attention: Part = LLAMA_ATTENTION
    feed_forward: Part = GATED
    norms: Part = TWO_NORMS
    beside: Part = nothing
    rope: Rope = TABLES
    vocabulary: Size = VOCABULARY
    word_width: Size = HIDDEN
    final_norm: Norm = Norm.ONE
    tied: Flag = TIED
    head_bias: Flag = never
    everywhere: bool = False
    norm_everywhere: bool | None = None
    capped_positions: bool = False
    headless: bool = False
    embedding_everywhere: bool = False
    ends: Extras | None = None
    extras: Extras = no_extras

    def tensors(
        self, site: Site, config: HfConfig, stage: Stage, layers: Sequence[CacheLayer]
    ) -> Tensors:
        """All that a rank of ``stage`` holds of the language model."""
        ends = self._ends if self.ends is None else self.ends
        return (
            *ends(site, config, stage),
            *self._head(site, config, stage),
            *self._layers(site, config, stage, layers),
            *self._rope(site, config, [at for at in layers if at.decoder_layer in stage.layers]),
            *self.extras(site, config, stage),
        )

    def _rope(self, site: Site, config: HfConfig, layers: Sequence[CacheLayer]) -> Tensors:
        if self.capped_positions:
            rows = min(config.positive(_POSITIONS), site.max_model_len)
            config = config.with_value(_POSITIONS, rows)
        rope = rope_of(self.rope, config, site.itemsize, is_compiled=site.is_compiled)
        return rope(config, layers, site.itemsize)

    def _ends(self, site: Site, config: HfConfig, stage: Stage) -> Tensors:
        rows, hidden = self.vocabulary(config), size(config, "hidden_size")
        tied = self.tied(config)
        tensors: Tensors = ()
        everywhere = self.everywhere or self.embedding_everywhere
        if stage.is_first or everywhere or (tied and stage.is_last):
            tensors += site.embedding("embed_tokens", rows, hidden)
        norm = self.everywhere if self.norm_everywhere is None else self.norm_everywhere
        if stage.is_last or norm:
            tensors += self.final_norm.at(site, hidden, "final_norm")
        return tensors

    def _head(self, site: Site, config: HfConfig, stage: Stage) -> Tensors:
        if self.headless or not (stage.is_last or self.everywhere):
            return ()
        rows, hidden = self.vocabulary(config), self.word_width(config)
        head = () if self.tied(config) else site.head(rows, hidden)
        bias = self.head_bias(config)
        if site.adapters is not None:
            padded = round_up(rows, VOCABULARY_PADDING)
            head += site.adapters.of_head(rows, padded, hidden, site.tensor_parallel_size)
        return head + (site.embedding("lm_head_bias", rows, 1) if bias else ())

    def _layers(
        self, site: Site, config: HfConfig, stage: Stage, layers: Sequence[CacheLayer]
    ) -> Tensors:
        by_index: dict[int, list[CacheLayer]] = {}
        for layer in layers:
            by_index.setdefault(layer.decoder_layer, []).append(layer)
        stem = layers_path(layers)
        groups: list[Tensors] = []
        for index in stage.layers:
            facts = LayerFacts(
                site=site.at(f"{stem}.{index}"),
                config=config,
                index=index,
                caches=tuple(by_index.get(index, ())),
            )
            for part in (self.attention, self.feed_forward, self.norms, self.beside):
                groups.append(part(facts))
        return tuple(tensor for group in groups for tensor in group)


def layers_path(layers: Sequence[CacheLayer]) -> str:
    """The module path of the list of layers, read off a cache's name."""
    for layer in layers:
        head, found, _ = layer.name.partition(f".{layer.decoder_layer}.")
        if found:
            return head
    return "model.layers"
