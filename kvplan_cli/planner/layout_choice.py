"""One layout for the whole model, and whether it can hold the groups' pages.

Source: vLLM 0.33.0 ``v1/attention/backends/utils.py:resolve_kv_cache_layout`` and
``v1/core/kv_cache_planning.py:validate_kv_cache_layout``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvplan_cli.grouping.group import KVCacheGroup, RefusalKind, refuse
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import AttentionSpec, KVCacheSpec
from kvplan_cli.specs.bundle import LayerSpecs, distinct_specs

LEGACY_LAYOUT_NAMES = {"NHD": "LBNHC", "HND": "LBHNC"}


def resolve_layout(workers: Sequence[LayerSpecs], settings: PlannerSettings) -> KVCacheLayout:
    """The first supported layout that the layers' pages allow, or the requested one.

    Raises: RefusedError where none is left, or the requested one is not among them.
    """
    supported = settings.supported_layouts
    shown = [[layout.value for layout in supported]] * len(workers)
    specs = [
        spec
        for worker in workers
        for spec in distinct_specs(worker.values())
        if spec.has_layer_views
    ]
    candidates = list(supported)
    if len({(s.num_heads, s.states_per_block, s.page_size_bytes) for s in specs}) > 1:
        candidates = [layout for layout in candidates if layout.is_block_compact]
        if not candidates:
            raise refuse(
                RefusalKind.LAYOUT,
                "Specs with mixed HNC shapes need a block-compact layout, but none is in every "
                f"supported set: {shown}.",
            )
    if _mixes_dcp_sharding(specs):
        candidates = [layout for layout in candidates if layout.is_block_outermost]
        if not candidates:
            raise refuse(
                RefusalKind.LAYOUT,
                "DCP with a replicated draft and mixed KV page sizes requires a block-outer KV "
                f"cache layout; supported sets: {shown}.",
            )
    if settings.requested_layout is None:
        return candidates[0]
    return _requested(settings.requested_layout, candidates)


def _mixes_dcp_sharding(specs: Iterable[KVCacheSpec]) -> bool:
    specs = tuple(specs)
    sharding = {
        spec.dcp_sharded
        for spec in specs
        if isinstance(spec, AttentionSpec) and spec.uses_slot_mapping
    }
    return len(sharding) > 1 and len({spec.page_size_bytes for spec in specs}) > 1


def _requested(name: str, candidates: list[KVCacheLayout]) -> KVCacheLayout:
    known = LEGACY_LAYOUT_NAMES.get(name, name)
    for layout in candidates:
        if layout.value == known:
            return layout
    valid = [layout.value for layout in candidates]
    raise refuse(
        RefusalKind.LAYOUT,
        f"VLLM_KV_CACHE_LAYOUT={name} does not satisfy every supported set; "
        f"valid layouts: {valid}.",
    )


def check_layout(layout: KVCacheLayout, groups: Sequence[KVCacheGroup]) -> None:
    """Make sure that the layout can hold these groups' pages side by side.

    Raises: RefusedError.
    """
    page_sizes = {spec.page_size_bytes for group in groups for spec in group.layers_by_spec}
    if len(page_sizes) == 1:
        return
    if not layout.is_block_compact or (len(groups) > 1 and layout.is_layer_compact):
        raise refuse(
            RefusalKind.LAYOUT,
            f"KV cache layout {layout.value} cannot express this model's mixed page sizes "
            f"({sorted(page_sizes)}); a backend should declare block-outermost supported "
            "layouts (e.g. BLHNC), or set VLLM_KV_CACHE_LAYOUT=BLHNC.",
        )
