"""Hidden-state layers beside attention: a group each, its page raised to the common one.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``get_kv_cache_groups``,
``_ensure_min_page_size``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from kvplan_cli.grouping.group import KVCacheGroup
from kvplan_cli.specs import AttentionSpec, HiddenStateCacheSpec, KVCacheSpec, MambaSpec
from kvplan_cli.specs.bundle import GroupSpec, UniformTypeKVCacheSpecs
from kvplan_cli.units import cdiv

HiddenSpecs = Mapping[str, HiddenStateCacheSpec]


def packed_hidden_groups(hidden: HiddenSpecs) -> tuple[KVCacheGroup, ...]:
    """A group a layer as it stands: packed blocks need no common page."""
    return tuple(KVCacheGroup(layer_names=(name,), spec=spec) for name, spec in hidden.items())


def aligned_hidden_groups(
    groups: tuple[KVCacheGroup, ...], hidden: HiddenSpecs
) -> tuple[KVCacheGroup, ...]:
    """The groups with one for each hidden-state layer behind them, all of one page.

    A hidden state of one token that does not fit the common page scales every block up.
    """
    if not hidden:
        return groups
    common_page = groups[0].page_size_bytes
    scale = cdiv(max(_token_bytes(spec) for spec in hidden.values()), common_page)
    if scale > 1:
        common_page *= scale
        groups = tuple(replace(group, spec=_scaled(group.spec, scale)) for group in groups)
    block_size = math.gcd(*(group.block_size for group in groups))
    aligned = []
    for name, spec in hidden.items():
        tokens = _largest_divisor(block_size, max(common_page // _token_bytes(spec), 1))
        raised = replace(spec, block_size=tokens, page_size_padded=common_page)
        aligned.append(KVCacheGroup(layer_names=(name,), spec=raised))
    return (*groups, *aligned)


def _token_bytes(spec: HiddenStateCacheSpec) -> int:
    return spec.num_kv_heads * spec.head_size * spec.dtype.itemsize


def _scaled(spec: GroupSpec, scale: int) -> KVCacheSpec:
    if isinstance(spec, UniformTypeKVCacheSpecs):
        raise TypeError("equal-sized groups carry one spec each")
    block_size = spec.block_size * scale
    if isinstance(spec, AttentionSpec | MambaSpec) and spec.page_size_padded is not None:
        return replace(spec, block_size=block_size, page_size_padded=spec.page_size_padded * scale)
    return replace(spec, block_size=block_size)


def _largest_divisor(value: int, limit: int) -> int:
    return next(n for n in range(min(value, limit), 0, -1) if value % n == 0)
