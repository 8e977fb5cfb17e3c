"""Mixed page sizes packed side by side in each block of a block-outermost layout.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``_get_packed_kv_cache_groups``,
``_approximate_gcd``).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.grouping.group import KVCacheGroup, RefusalKind, refuse
from kvplan_cli.specs import CircularBufferSpec, KVCacheSpec, MambaSpec, SlidingWindowSpec
from kvplan_cli.specs.bundle import LayerSpecs, UniformTypeKVCacheSpecs, is_uniform_with
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass


def least_padding_chunk(values: Sequence[int], lower_bound: int) -> int:
    """The chunk in lower_bound..max(values) whose multiples pad ``values`` least.

    The larger of equals wins. ``values`` are positive and not empty; where the lower bound
    is above them all, it is the answer.
    """
    largest = max(values)
    if lower_bound > largest:
        return lower_bound
    return min(
        range(largest, lower_bound - 1, -1),
        key=lambda chunk: sum(-value % chunk for value in values),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """Layers of one kind. Balanced: each page size holds equally many layers (a pattern)."""

    bundle: UniformTypeKVCacheSpecs
    layers_by_page: dict[int, list[str]]

    @property
    def balanced(self) -> bool:
        return len({len(names) for names in self.layers_by_page.values()}) == 1

    @property
    def repeats(self) -> int:
        return max(len(names) for names in self.layers_by_page.values())

    @property
    def num_layers(self) -> int:
        return len(self.bundle.kv_cache_specs)

    def widest_bytes(self, num_groups: int) -> int:
        """Page bytes of the largest of the groups that the bucket splits into."""
        return sum(
            cdiv(len(names), num_groups) * page for page, names in self.layers_by_page.items()
        )


def packed_groups(layers: LayerSpecs) -> tuple[KVCacheGroup, ...] | None:
    """Groups that pack into one block; None when all layers share one page size.

    The caller has made sure that the layout is block-outermost.
    """
    if len({spec.page_size_bytes for spec in layers.values()}) <= 1:
        return None
    buckets = _buckets(layers)
    repeats_per_group = _repeats_per_group(buckets)
    splits = [_pattern_split(bucket, repeats_per_group) for bucket in buckets]
    floor = max(
        bucket.widest_bytes(
            bucket.num_layers if _is_state(bucket, repeats_per_group) else num_groups
        )
        for bucket, num_groups in zip(buckets, splits, strict=True)
    )
    groups: list[KVCacheGroup] = []
    for bucket, split in zip(buckets, splits, strict=True):
        num_groups = split
        if floor and _is_state(bucket, repeats_per_group):
            # A state group may not widen the block that the others need anyway.
            states = max(floor // bucket.bundle.first_spec.page_size_bytes, 1)
            num_groups = max(split, cdiv(bucket.num_layers, states))
        groups.extend(_split(bucket, num_groups))
    return tuple(groups)


def _buckets(layers: LayerSpecs) -> list[_Bucket]:
    members: list[dict[str, KVCacheSpec]] = []
    firsts: list[KVCacheSpec] = []
    placed: dict[int, int] = {}
    for name, spec in layers.items():
        index = placed.get(id(spec))
        if index is None:
            index = next(
                (i for i, first in enumerate(firsts) if is_uniform_with(first, spec)), len(firsts)
            )
            placed[id(spec)] = index
            if index == len(firsts):
                firsts.append(spec)
                members.append({})
        members[index][name] = spec
    bundles = [UniformTypeKVCacheSpecs(kv_cache_specs=part) for part in members]
    return [_Bucket(bundle=b, layers_by_page=b.layers_by_page_size) for b in bundles]


def _repeats_per_group(buckets: list[_Bucket]) -> int | None:
    # A balanced bucket of several page sizes stays whole: the largest sets the floor.
    floor = max((b.repeats for b in buckets if b.balanced and len(b.layers_by_page) > 1), default=0)
    if not floor:
        return None
    return least_padding_chunk([b.repeats for b in buckets if b.balanced], floor)


def _pattern_split(bucket: _Bucket, repeats_per_group: int | None) -> int:
    if bucket.balanced and repeats_per_group is not None:
        return cdiv(bucket.repeats, repeats_per_group)
    return 1


def _is_state(bucket: _Bucket, repeats_per_group: int | None) -> bool:
    first = bucket.bundle.first_spec
    if isinstance(first, MambaSpec | CircularBufferSpec):
        return True
    return repeats_per_group is None and isinstance(first, SlidingWindowSpec)


def _split(bucket: _Bucket, num_groups: int) -> list[KVCacheGroup]:
    bundle = bucket.bundle
    if num_groups == 1:
        return [KVCacheGroup(layer_names=tuple(bundle.kv_cache_specs), spec=bundle)]
    # A bucket of unequal counts loses layers here, as in the engine, which then refuses.
    repeats = list(zip(*bucket.layers_by_page.values(), strict=False))
    groups = []
    for i in range(num_groups):
        names = tuple(name for repeat in repeats[i::num_groups] for name in repeat)
        if not names:
            # The engine makes a bundle of no layers here and stops.
            raise refuse(
                RefusalKind.UNSPLITTABLE,
                "",
                "StopIteration",
                f"{bucket.num_layers} layers of one kind but several page sizes do not split "
                f"into {num_groups} groups",
            )
        groups.append(KVCacheGroup(layer_names=names, spec=bundle.subset(names)))
    return groups
