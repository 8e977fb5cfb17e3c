"""Layers of one kind whose pages may differ, seen as one cache.

Source: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py:UniformTypeKVCacheSpecs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from kvplan_cli.specs.base import KVCacheSpec, MergeFailure, RequestLimits
from kvplan_cli.values import dataclass

LayerSpecs = Mapping[str, KVCacheSpec]


def layers_by_spec(layers: LayerSpecs) -> dict[KVCacheSpec, tuple[str, ...]]:
    """Layer names of each distinct spec, both in order of first appearance.

    Equal layers mostly share one object: each object is hashed once.
    """
    by_object: dict[int, list[str]] = {}
    for name, spec in layers.items():
        names = by_object.get(id(spec))
        if names is None:
            by_object[id(spec)] = [name]
        else:
            names.append(name)
    by_value: dict[KVCacheSpec, tuple[str, ...]] = {}
    merged_objects = False
    for names in by_object.values():
        spec = layers[names[0]]
        if spec in by_value:
            merged_objects = True
        by_value[spec] = by_value.get(spec, ()) + tuple(names)
    if merged_objects:
        place = {name: index for index, name in enumerate(layers)}
        by_value = {s: tuple(sorted(n, key=place.__getitem__)) for s, n in by_value.items()}
    return by_value


def distinct_specs(specs: Iterable[KVCacheSpec]) -> tuple[KVCacheSpec, ...]:
    """The distinct spec objects, in order; equal specs may appear once for each object."""
    return tuple({id(spec): spec for spec in specs}.values())


def merge_specs(specs: Iterable[KVCacheSpec]) -> KVCacheSpec | MergeFailure:
    """One spec for layers of these specs, by the first one's rule; ``specs`` not empty."""
    distinct = distinct_specs(specs)
    return type(distinct[0]).merged(distinct)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UniformTypeKVCacheSpecs:
    """Per-layer specs that always need the same number of token slots.

    kv_cache_specs: layer name to spec, in order, at least one. page_size_bytes: bytes of one
    block of all layers together.
    """

    kv_cache_specs: LayerSpecs
    layers_by_spec: dict[KVCacheSpec, tuple[str, ...]] = field(init=False, repr=False)
    page_size_bytes: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_spec = layers_by_spec(self.kv_cache_specs)
        object.__setattr__(self, "layers_by_spec", by_spec)
        pages = sum(spec.page_size_bytes * len(names) for spec, names in by_spec.items())
        object.__setattr__(self, "page_size_bytes", pages)

    @property
    def first_spec(self) -> KVCacheSpec:
        """The first layer's spec; it speaks for all in what they share."""
        return next(iter(self.layers_by_spec))

    @property
    def block_size(self) -> int:
        """Tokens in a block, the same for all layers."""
        return self.first_spec.block_size

    @property
    def dcp_sharded(self) -> bool:
        """Whether decode context parallelism spreads the tokens, the same for all layers."""
        return self.first_spec.dcp_sharded

    @property
    def prefix_cacheable(self) -> bool:
        """Whether blocks of all layers can be found again by prefix caching."""
        return all(spec.prefix_cacheable for spec in self.layers_by_spec)

    @property
    def layers_by_page_size(self) -> dict[int, list[str]]:
        """Layer names of each page size, in order of first appearance."""
        by_page: dict[int, list[str]] = {}
        for name, spec in self.kv_cache_specs.items():
            by_page.setdefault(spec.page_size_bytes, []).append(name)
        return by_page

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        """The most blocks that one request holds in any of the layers."""
        return max(s.max_blocks_per_request(max_model_len, limits) for s in self.layers_by_spec)

    def subset(self, names: Iterable[str]) -> UniformTypeKVCacheSpecs:
        """The bundle of these layers alone."""
        specs = self.kv_cache_specs
        return UniformTypeKVCacheSpecs(kv_cache_specs={name: specs[name] for name in names})


def is_uniform_with(first: KVCacheSpec, other: KVCacheSpec) -> bool:
    """Whether a bundle that ``first`` opened takes ``other``."""
    return (
        other.block_size == first.block_size
        and other.dcp_sharded == first.dcp_sharded
        and first.is_uniform_with(other)
    )


def is_uniform_type(layers: LayerSpecs) -> bool:
    """Whether all layers always need the same number of token slots; ``layers`` not empty."""
    first, *others = distinct_specs(layers.values())
    return all(is_uniform_with(first, other) for other in others)


GroupSpec = KVCacheSpec | UniformTypeKVCacheSpecs


def iter_layer_specs(spec: GroupSpec) -> tuple[KVCacheSpec, ...]:
    """The distinct layer specs that a group's spec covers."""
    if isinstance(spec, UniformTypeKVCacheSpecs):
        return tuple(spec.layers_by_spec)
    return (spec,)
