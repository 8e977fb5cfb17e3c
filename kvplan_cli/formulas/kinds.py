"""The kinds of cached layers in a model, and what people call them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvplan_cli.grouping.group import KVCacheGroup
from kvplan_cli.specs import KVCacheSpec, MLAAttentionSpec, SparseCacheRole
from kvplan_cli.units import spans
from kvplan_cli.values import dataclass

# The engine's spec classes in a word or two.
SPEC_WORDS: Final = {
    "FullAttentionSpec": "full",
    "MLAAttentionSpec": "MLA",
    "SlidingWindowSpec": "sliding",
    "SlidingWindowMLASpec": "sliding MLA",
    "ChunkedLocalAttentionSpec": "chunked",
    "SinkFullAttentionSpec": "full with sinks",
    "RSWASpec": "reference window",
    "HiddenStateCacheSpec": "hidden states",
    "CircularBufferSpec": "circular buffer",
    "CrossAttentionSpec": "cross",
    "EncoderOnlyAttentionSpec": "encoder only",
    "MambaSpec": "state",
    "HiSparseHotSpec": "HiSparse hot",
    "HiSparseResidentSpec": "HiSparse resident",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Layers that store alike. first_layer: the name of one. groups: those that hold them."""

    spec: KVCacheSpec
    first_layer: str
    num_layers: int
    groups: tuple[int, ...]

    @property
    def label(self) -> str:
        """``52 sliding 1,024 layers of groups 0-5``."""
        noun = "layer" if self.num_layers == 1 else "layers"
        words = f"{self.num_layers:,} {spec_words(self.spec)} {noun}"
        return f"{words} of {groups_label(self.groups)}"


def spec_words(spec: KVCacheSpec) -> str:
    """``sliding 1,024``: the kind, with the window or chunk it computes with."""
    words = SPEC_WORDS[type(spec).__name__]
    if isinstance(spec, MLAAttentionSpec) and spec.cache_role is SparseCacheRole.INDEXER:
        words += " indexer"
    for field in ("sliding_window", "attention_chunk_size"):
        tokens = getattr(spec, field, None)
        if tokens is not None:
            words += f" {tokens:,}"
    return words


def groups_label(groups: Iterable[int]) -> str:
    """``group 0``, ``groups 0-5``, ``groups 0, 2``."""
    numbers = sorted(set(groups))
    return f"group{'' if len(numbers) == 1 else 's'} {spans(numbers).replace(',', ', ')}"


def layer_kinds(groups: Iterable[KVCacheGroup]) -> tuple[Kind, ...]:
    """The distinct kinds of layers of these groups, in order of appearance."""
    layers: dict[KVCacheSpec, list[str]] = {}
    places: dict[KVCacheSpec, list[int]] = {}
    for index, group in enumerate(groups):
        for spec, names in group.layers_by_spec.items():
            layers.setdefault(spec, []).extend(names)
            places.setdefault(spec, []).append(index)
    return tuple(
        Kind(
            spec=spec,
            first_layer=names[0],
            num_layers=len(names),
            groups=tuple(places[spec]),
        )
        for spec, names in layers.items()
    )
