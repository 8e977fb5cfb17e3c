"""Which way of grouping a model takes.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``get_global_kv_cache_groups``,
``get_kv_cache_groups``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan_cli.engine_rules import DrafterRule
from kvplan_cli.grouping.drafters import marked_by_layer, marked_by_spec_and_position
from kvplan_cli.grouping.equal_sized import equal_sized_groups, with_one_page_size
from kvplan_cli.grouping.group import (
    KVCacheGroup,
    PlanWarning,
    RefusalKind,
    RefusedError,
    refuse,
)
from kvplan_cli.grouping.hidden_states import aligned_hidden_groups, packed_hidden_groups
from kvplan_cli.grouping.hisparse import hisparse_groups
from kvplan_cli.grouping.packed import packed_groups
from kvplan_cli.grouping.promotion import full_allocation_fallback, promote_if_hybrid
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.grouping.uniform import merged_spec
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import (
    EncoderOnlyAttentionSpec,
    HiddenStateCacheSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)
from kvplan_cli.specs.bundle import LayerSpecs, UniformTypeKVCacheSpecs, is_uniform_type
from kvplan_cli.values import dataclass

Groups = tuple[KVCacheGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The groups of a whole model, and what the engine warns about while making them."""

    groups: Groups
    warnings: tuple[PlanWarning, ...] = ()


def global_groups(
    workers: Sequence[LayerSpecs], settings: PlannerSettings, layout: KVCacheLayout
) -> Grouping:
    """Group the layers of all workers (pipeline stages) together.

    Raises: RefusedError where the engine refuses; ValueError when two workers store one
    layer differently.
    """
    layers = _merged_workers(workers)
    _check_cacheable(layers)
    if settings.rules.retains_draft_tokens:
        extra = max(0, settings.num_prefill_lookahead_tokens - 1)
        layers = _with_retained_tokens(layers, extra)
    grouping = group_layers(layers, settings, layout)
    if settings.hisparse is None:
        _check_partition(grouping.groups, layers)
    if settings.rules.drafter_rule is DrafterRule.BY_LAYER:
        groups, warnings = marked_by_layer(grouping.groups, layers, settings.speculative)
        return Grouping(groups=groups, warnings=grouping.warnings + warnings)
    return grouping


def group_layers(layers: LayerSpecs, settings: PlannerSettings, layout: KVCacheLayout) -> Grouping:
    """Group these layers; an empty result for a model that caches nothing.

    Raises: RefusedError where the engine refuses.
    """
    warnings: tuple[PlanWarning, ...] = ()
    if settings.disable_hybrid_kv_cache_manager:
        layers, warnings = promote_if_hybrid(layers)
    if not layers:
        return Grouping(groups=(), warnings=warnings)
    if settings.hisparse is not None:
        groups, rest = hisparse_groups(layers, settings)
        if groups:
            others = group_layers(rest, settings, layout).groups if rest else ()
            return Grouping(groups=(*groups, *others), warnings=warnings)
    merged = merged_spec(layers)
    if merged is not None:
        group = KVCacheGroup(layer_names=tuple(layers), spec=merged)
        return Grouping(groups=(group,), warnings=warnings)
    if is_uniform_type(layers):
        bundle = UniformTypeKVCacheSpecs(kv_cache_specs=layers)
        group = KVCacheGroup(layer_names=tuple(layers), spec=bundle)
        return Grouping(groups=(group,), warnings=warnings)
    hybrid = _hybrid_groups(layers, settings, layout)
    return Grouping(groups=hybrid.groups, warnings=warnings + hybrid.warnings)


def _hybrid_groups(
    layers: LayerSpecs, settings: PlannerSettings, layout: KVCacheLayout
) -> Grouping:
    hidden = {n: s for n, s in layers.items() if isinstance(s, HiddenStateCacheSpec)}
    attention = {n: s for n, s in layers.items() if n not in hidden}
    by_position = settings.rules.drafter_rule is DrafterRule.BY_SPEC_AND_POSITION
    if layout.is_block_outermost:
        groups = packed_groups(attention)
        if groups is not None:
            marks: tuple[PlanWarning, ...] = ()
            if by_position:
                groups, marks = marked_by_spec_and_position(groups, attention, settings.speculative)
            return Grouping(groups=groups + packed_hidden_groups(hidden), warnings=marks)
    try:
        attention = dict(with_one_page_size(attention))
    except RefusedError as error:
        fallback = full_allocation_fallback(layers)
        if fallback is None or error.refusal.error_type != "NotImplementedError":
            raise
        return Grouping(groups=fallback[0], warnings=fallback[1])
    groups, warnings = equal_sized_groups(attention)
    groups = aligned_hidden_groups(groups, hidden)
    if by_position:
        groups, marks = marked_by_spec_and_position(groups, layers, settings.speculative)
        warnings += marks
    return Grouping(groups=groups, warnings=warnings)


def _merged_workers(workers: Sequence[LayerSpecs]) -> dict[str, KVCacheSpec]:
    if len(workers) == 1:
        return dict(workers[0])
    merged: dict[str, KVCacheSpec] = {}
    for worker in workers:
        for name, spec in worker.items():
            if merged.setdefault(name, spec) != spec:
                raise ValueError(f"layer {name} is stored differently by two workers")
    return merged


def _check_cacheable(layers: LayerSpecs) -> None:
    for name, spec in layers.items():
        if isinstance(spec, EncoderOnlyAttentionSpec):
            raise refuse(
                RefusalKind.UNSUPPORTED_SPEC,
                f"Unsupported KV cache spec type for layer {name}: <class "
                "'vllm.v1.kv_cache_interface.EncoderOnlyAttentionSpec'>. Please register it "
                "using @register_kv_cache_spec decorator.",
            )


def _check_partition(groups: Groups, layers: LayerSpecs) -> None:
    grouped = {name for group in groups for name in group.layer_names}
    missing = sorted(set(layers) - grouped)
    if missing:
        raise refuse(
            RefusalKind.UNSPLITTABLE,
            f"KV cache groups miss layers: {missing}.",
            "AssertionError",
        )


def _with_retained_tokens(layers: dict[str, KVCacheSpec], extra: int) -> dict[str, KVCacheSpec]:
    changed: dict[int, KVCacheSpec] = {}
    for name, spec in layers.items():
        if isinstance(spec, SlidingWindowSpec) and spec.extra_retained_tokens != extra:
            known = changed.get(id(spec))
            if known is None:
                known = changed[id(spec)] = replace(spec, extra_retained_tokens=extra)
            layers[name] = known
    return layers
