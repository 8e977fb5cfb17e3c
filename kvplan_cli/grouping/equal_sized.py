"""Hybrid models with one page size for all: groups of equally many layers.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``unify_kv_cache_spec_page_size``,
``_get_kv_cache_groups_uniform_page_size``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan_cli.grouping.group import (
    KVCacheGroup,
    PlanWarning,
    RefusalKind,
    WarningKind,
    refuse,
)
from kvplan_cli.grouping.uniform import group_of
from kvplan_cli.specs import (
    AttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MergeFailure,
    MLAAttentionSpec,
    SpecError,
)
from kvplan_cli.specs.bundle import LayerSpecs, layers_by_spec
from kvplan_cli.units import cdiv

# Up to this ratio of the largest to the smallest kind, padding the smaller costs less
# than splitting the larger (a drafter adds a layer or two to one kind).
PAD_BELOW_RATIO = 1.5


def with_one_page_size(layers: LayerSpecs) -> LayerSpecs:
    """The layers with every page raised to the largest: more tokens a block, or padding.

    Raises: RefusedError for an MLA page that does not divide the largest.
    """
    page_sizes = {spec.page_size_bytes for spec in layers.values()}
    if len(page_sizes) <= 1:
        return layers
    largest = max(page_sizes)
    raised: dict[int, KVCacheSpec] = {}
    result = {}
    for name, spec in layers.items():
        known = raised.get(id(spec))
        if known is None:
            known = raised[id(spec)] = _with_page_size(name, spec, largest)
        result[name] = known
    return result


def _with_page_size(name: str, spec: KVCacheSpec, page_size: int) -> KVCacheSpec:
    if spec.page_size_bytes == page_size:
        return spec
    if isinstance(spec, MambaSpec):
        return replace(spec, page_size_padded=page_size)
    ratio, rest = divmod(page_size, spec.page_size_bytes)
    if rest == 0:
        return _with_block_size(name, spec, spec.block_size * ratio, page_size)
    if isinstance(spec, AttentionSpec) and not isinstance(spec, MLAAttentionSpec):
        return replace(spec, page_size_padded=page_size)
    raise refuse(
        RefusalKind.PAGE_SIZES,
        f"Layer {name}: page size is not divisible by the maximum page size and cannot be "
        "padded. Padding is only supported for non-MLA attention layers.",
        "NotImplementedError",
    )


def _with_block_size(name: str, spec: KVCacheSpec, block_size: int, page: int) -> KVCacheSpec:
    try:
        grown = replace(spec, block_size=block_size)
    except SpecError:
        grown = spec
    if grown.page_size_bytes != page:
        # A padded page does not grow with its block: the engine's assertion fails, wordless.
        raise refuse(
            RefusalKind.PAGE_SIZES,
            "",
            "AssertionError",
            f"layer {name} has a padded page of {spec.page_size_bytes} bytes, which cannot be "
            f"raised to the {page} bytes of the largest page",
        )
    return grown


def equal_sized_groups(
    layers: LayerSpecs,
) -> tuple[tuple[KVCacheGroup, ...], tuple[PlanWarning, ...]]:
    """Groups of equally many layers, the last of each kind padded.

    The layers of a kind are dealt out in turn (``names[i::n]``), so that each pipeline stage
    finds about as many in every group.
    """
    buckets = _mergeable_buckets(layers)
    group_size = layers_a_group([len(bucket) for bucket in buckets])
    groups: list[KVCacheGroup] = []
    warnings: list[PlanWarning] = []
    for names in buckets:
        padding = -len(names) % group_size
        if padding:
            warnings.append(_padding_warning(padding, len(names)))
        num_groups = cdiv(len(names), group_size)
        groups.extend(group_of(layers, names[i::num_groups]) for i in range(num_groups))
    return tuple(groups), tuple(warnings)


def pads_smaller_kinds(layers_by_kind: Sequence[int]) -> bool:
    """Whether the kinds are near enough in number for groups as large as the largest kind."""
    return max(layers_by_kind) < min(layers_by_kind) * PAD_BELOW_RATIO


def layers_a_group(layers_by_kind: Sequence[int]) -> int:
    """Layers of every group, from the layers of each kind."""
    return max(layers_by_kind) if pads_smaller_kinds(layers_by_kind) else min(layers_by_kind)


def _mergeable_buckets(layers: LayerSpecs) -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = []
    specs: list[tuple[KVCacheSpec, ...]] = []
    for spec, spec_names in layers_by_spec(layers).items():
        for index, members in enumerate(specs):
            candidate = (*members, spec)
            if not isinstance(type(members[0]).merged(candidate), MergeFailure):
                names[index] += spec_names
                specs[index] = candidate
                break
        else:
            names.append(spec_names)
            specs.append((spec,))
    return names


def _padding_warning(padding: int, layers: int) -> PlanWarning:
    percent = padding / layers * 100
    return PlanWarning(
        kind=WarningKind.PADDING_LAYERS,
        message=f"Add {padding} padding layers, may waste at most {percent:.2f}% KV cache memory",
    )
