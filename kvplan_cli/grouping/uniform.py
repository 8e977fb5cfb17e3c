"""Models whose layers all store alike: one group.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``is_kv_cache_spec_uniform``,
``create_kv_cache_group_specs``).
"""

from __future__ import annotations

from kvplan_cli.grouping.group import KVCacheGroup, RefusalKind, refuse
from kvplan_cli.specs import KVCacheSpec, MergeFailure
from kvplan_cli.specs.bundle import LayerSpecs, merge_specs


def merged_spec(layers: LayerSpecs) -> KVCacheSpec | None:
    """One spec for all layers, None when they are not mergeable. ``layers`` not empty.

    Raises: RefusedError on windows that conflict; the engine does not catch that one.
    """
    merged = merge_specs(layers.values())
    if merged is MergeFailure.CONFLICTING_WINDOWS:
        raise refuse(RefusalKind.WINDOWS, merged.value)
    return None if isinstance(merged, MergeFailure) else merged


def is_uniform_spec(layers: LayerSpecs) -> bool:
    """Whether all layers merge into one spec; true for no layers."""
    return not layers or merged_spec(layers) is not None


def group_of(layers: LayerSpecs, names: tuple[str, ...]) -> KVCacheGroup:
    """The group of these layers, under their merged spec.

    Raises: RefusedError when they do not merge.
    """
    merged = merge_specs(layers[name] for name in names)
    if isinstance(merged, MergeFailure):
        kind = RefusalKind.WINDOWS
        error = "ValueError" if merged is MergeFailure.CONFLICTING_WINDOWS else "AssertionError"
        raise refuse(kind, merged.value, error)
    return KVCacheGroup(layer_names=names, spec=merged)
