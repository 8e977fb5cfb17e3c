"""Layers of one kind whose pages may differ, seen as one cache.

Source: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py:UniformTypeKVCacheSpecs``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kvplan_cli.specs.base import KVCacheSpec, RequestLimits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UniformTypeKVCacheSpecs:
    """Per-layer specs that always need the same number of token slots.

    kv_cache_specs: layer name to spec, in order, at least one.
    """

    kv_cache_specs: Mapping[str, KVCacheSpec]

    @property
    def first_spec(self) -> KVCacheSpec:
        """The first layer's spec; it speaks for all in what they share."""
        return next(iter(self.kv_cache_specs.values()))

    @property
    def block_size(self) -> int:
        return self.first_spec.block_size

    @property
    def dcp_sharded(self) -> bool:
        return self.first_spec.dcp_sharded

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of all layers together."""
        return sum(spec.page_size_bytes for spec in self.kv_cache_specs.values())

    @property
    def prefix_cacheable(self) -> bool:
        return all(spec.prefix_cacheable for spec in self.kv_cache_specs.values())

    @property
    def max_layers_per_page_size(self) -> int:
        """Layers of the most common page size: repeats of the pattern in a balanced bundle."""
        pages = Counter(spec.page_size_bytes for spec in self.kv_cache_specs.values())
        return pages.most_common(1)[0][1]

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        """The most blocks that one request holds in any of the layers."""
        distinct = set(self.kv_cache_specs.values())
        return max(spec.max_blocks_per_request(max_model_len, limits) for spec in distinct)


def is_uniform_type(specs: Mapping[str, KVCacheSpec]) -> bool:
    """Whether all layers always need the same number of token slots. ``specs`` not empty."""
    values = tuple(specs.values())
    first = values[0]
    return all(
        spec.block_size == first.block_size
        and spec.dcp_sharded == first.dcp_sharded
        and first.is_uniform_with(spec)
        for spec in values
    )


GroupSpec = KVCacheSpec | UniformTypeKVCacheSpecs


def iter_layer_specs(spec: GroupSpec) -> tuple[KVCacheSpec, ...]:
    """The per-layer specs that a group's spec covers."""
    if isinstance(spec, UniformTypeKVCacheSpecs):
        return tuple(spec.kv_cache_specs.values())
    return (spec,)
