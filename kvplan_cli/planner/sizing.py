"""Bytes: of one block over all layers, of one request, and where tensors stand.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``_get_kv_cache_bytes_per_block``,
``_max_memory_usage_bytes_from_groups``, ``get_kv_cache_config_from_groups``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kvplan_cli.grouping.group import KVCacheGroup, RefusalKind, device_groups, refuse
from kvplan_cli.layouts import KVCacheLayout, LayoutError, layer_and_block_stride
from kvplan_cli.planner.results import KVCacheTensor
from kvplan_cli.specs import HiSparseHotSpec, KVCacheSpec, RequestLimits, SpecError
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs
from kvplan_cli.units import round_up

Groups = Sequence[KVCacheGroup]


def layer_block_stride(spec: KVCacheSpec) -> int:
    """Bytes from block to block of one layer alone: the page, raised to its alignment."""
    return round_up(spec.page_size_bytes, spec.stride_alignment_bytes())


def bytes_per_block(groups: Groups, layout: KVCacheLayout) -> int:
    """Bytes that one block id costs: those of the widest group. 0 where no group has a layer."""
    if not layout.is_block_outermost:
        return max(
            sum(layer_block_stride(s) * len(names) for s, names in group.layers_by_spec.items())
            for group in groups
        )
    widest = max(
        sum(spec.page_size_bytes * len(names) for spec, names in group.layers_by_spec.items())
        for group in groups
    )
    alignments = {
        spec.stride_alignment_bytes() for group in groups for spec in group.layers_by_spec
    }
    hot_pages = {g.page_size_bytes for g in groups if isinstance(g.spec, HiSparseHotSpec)}
    return round_up(widest, math.lcm(*alignments, *hot_pages))


def blocks_per_request(group: KVCacheGroup, max_model_len: int, limits: RequestLimits) -> int:
    """The most blocks that one request holds in this group.

    Raises: RefusedError where the layers cannot be sharded as asked.
    """
    try:
        return group.spec.max_blocks_per_request(max_model_len, limits)
    except SpecError as error:
        raise refuse(RefusalKind.CONTEXT_PARALLEL, str(error), "AssertionError") from None


def request_blocks(groups: Groups, max_model_len: int, limits: RequestLimits) -> int:
    """The most blocks that one request holds in all groups of the device together."""
    return sum(blocks_per_request(g, max_model_len, limits) for g in device_groups(groups))


def place_tensors(
    groups: Groups,
    *,
    num_blocks: int,
    block_bytes: int,
    layout: KVCacheLayout,
    host_resident: bool = False,
) -> tuple[KVCacheTensor, ...]:
    """Where each run of equal layers stands in an allocation of num_blocks x block_bytes.

    Groups overlay each other from byte 0: a block id belongs to one group at a time.
    Raises: RefusedError where the layout cannot hold a padded page.
    """
    tensors: list[KVCacheTensor] = []
    for group in groups:
        offset = 0
        for spec, names in _placed_layers(group).items():
            layer_stride, block_stride = _strides(spec, len(names), num_blocks, block_bytes, layout)
            tensors.append(
                KVCacheTensor(
                    size=block_bytes * num_blocks,
                    layers=names,
                    layer_stride=layer_stride,
                    block_stride=block_stride,
                    offset=offset,
                    host_resident=host_resident,
                )
            )
            step = spec.page_size_bytes if layout.is_block_outermost else layer_stride
            offset += len(names) * step
    return tuple(tensors)


def _placed_layers(group: KVCacheGroup) -> Mapping[KVCacheSpec, tuple[str, ...]]:
    # A bundle without a layer on this worker keeps its specs, and the engine places them.
    if isinstance(group.spec, UniformTypeKVCacheSpecs):
        return group.spec.layers_by_spec
    return group.layers_by_spec


def _strides(
    spec: KVCacheSpec, num_layers: int, num_blocks: int, block_bytes: int, layout: KVCacheLayout
) -> tuple[int, int]:
    if not spec.has_layer_views or isinstance(spec, HiSparseHotSpec):
        return spec.page_size_bytes, block_bytes
    fixed = block_bytes if layout.is_block_outermost else None
    try:
        if fixed is None and layer_block_stride(spec) != spec.page_size_bytes:
            if not layout.is_block_compact:
                raise LayoutError(f"{layout.value} cannot pad pages")
            fixed = layer_block_stride(spec)
        return layer_and_block_stride(
            spec,
            num_layers=num_layers,
            num_blocks=num_blocks,
            layout=layout,
            block_stride=fixed,
        )
    except LayoutError as error:
        raise refuse(RefusalKind.LAYOUT, str(error), "AssertionError") from None
