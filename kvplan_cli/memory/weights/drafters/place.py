"""Where a drafter's modules stand, and the rotary tables that they find there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.layers import LayerFacts, size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import Rope, TellsRotations, rope_of
from kvplan_cli.memory.weights.tensors import Tensor, Tensors
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.values import dataclass

_NUMBERED: Final = re.compile(r"^(.*?\.\d+)(?:\.|$)")
Tables = Mapping[object, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPlace:
    """A drafter on a rank of the target's last stage.

    site: under the quantization that it is built with. config: its whole config; text: the
    language part. blocks: the caches of each of its decoder layers. first_number: of its first
    layer, behind the target's. pipelined: the target has several stages. tables: rotary tables
    that it has on the last one. target_vocab_size, target_hidden_size: its words and width.
    decoder: how its layers are described. quantization: the method by the engine's name.
    """

    site: Site
    config: HfConfig
    text: HfConfig
    blocks: tuple[tuple[CacheLayer, ...], ...]
    first_number: int
    pipelined: bool
    tables: Tables
    target_vocab_size: int
    target_hidden_size: int
    decoder: Decoder
    parallel_drafting: bool
    quantization: str | None

    @property
    def hidden_size(self) -> int:
        return size(self.text, "hidden_size")

    def embedding(self) -> Tensors:
        return self.site.embedding("embed_tokens", size(self.text, "vocab_size"), self.hidden_size)

    def norms(self, count: int, width: int | None = None) -> Tensors:
        """So many norms, of the hidden size unless told otherwise."""
        return Norm.ONE.at(self.site, self.hidden_size if width is None else width) * count

    def facts(
        self, index: int, caches: Sequence[CacheLayer], text: HfConfig, inside: str = ""
    ) -> LayerFacts:
        """One of its decoder layers. index: what the family chooses its parts by.

        inside: the module that holds the layer's parts.
        """
        site = self.site.at(block_path(caches)).at(inside)
        return LayerFacts(site=site, config=text, index=index, caches=tuple(caches))

    def rope(self, rope: Rope, text: HfConfig) -> Tensors:
        """The tables that none of the target's layers on the stage has."""
        layers = [layer for block in self.blocks for layer in block]
        own = tables_of(rope, text, layers, self.site)
        return tuple(tensor for key, tensor in own.items() if key not in self.tables)

    def of_qwen(self) -> DraftPlace:
        """The same for Qwen's layers: of a config in the speculators format they spell the
        rotation in another order, and the engine finds no table to use again."""
        anew = self.text.optional_text("model_type") == "speculators"
        return replace(self, tables={}) if anew else self

    def unquantized(self) -> DraftPlace:
        return replace(self, site=self.site.unquantized())


def block_tensors(decoder: Decoder, facts: LayerFacts) -> Tensors:
    """All parts of one decoder layer."""
    parts = (decoder.attention, decoder.feed_forward, decoder.norms, decoder.beside)
    return tuple(tensor for part in parts for tensor in part(facts))


def block_path(caches: Sequence[CacheLayer]) -> str:
    """The module path of a decoder layer, read off a cache's name."""
    found = _NUMBERED.match(caches[0].name) if caches else None
    return "" if found is None else found.group(1)


def tables_of(rope: Rope, config: HfConfig, layers: Sequence[CacheLayer], site: Site) -> Tables:
    """Rotary tables by what makes the engine use one twice."""
    itemsize = site.itemsize
    rope = rope_of(rope, config, itemsize, is_compiled=site.is_compiled)
    if isinstance(rope, TellsRotations):
        return rope.by_rotation(config, layers, itemsize)
    # Of these families each length and width is one rotation.
    return {tensor: tensor for tensor in rope(config, layers, itemsize)}
