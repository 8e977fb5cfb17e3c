"""Which groups hold a drafter's layers."""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.grouping.group import KVCacheGroup, PlanWarning, WarningKind
from kvplan_cli.grouping.settings import SpeculativeSettings
from kvplan_cli.specs import MambaSpec, MLAAttentionSpec
from kvplan_cli.specs.bundle import LayerSpecs, iter_layer_specs

Groups = tuple[KVCacheGroup, ...]


def marked_by_layer(
    groups: Groups, layers: LayerSpecs, speculative: SpeculativeSettings | None
) -> tuple[Groups, tuple[PlanWarning, ...]]:
    """Groups marked where a layer of theirs is a drafter's own.

    Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py:get_global_kv_cache_groups``.
    """
    if speculative is None or not speculative.use_eagle_block_drop:
        return groups, ()
    draft = {name for name, spec in layers.items() if spec.is_draft}
    groups = tuple(
        replace(group, is_eagle_group=not draft.isdisjoint(group.layer_names)) for group in groups
    )
    return groups, _warning(groups, speculative)


def marked_by_spec_and_position(
    groups: Groups, layers: LayerSpecs, speculative: SpeculativeSettings | None
) -> tuple[Groups, tuple[PlanWarning, ...]]:
    """Groups marked by the spec's non-causal decode, then the one of the last layer.

    The second rule holds where draft layers register last without a mark, and only if the
    groups hold every layer exactly once.
    Source: vLLM 0.32.0 ``v1/core/kv_cache_planning.py:_annotate_eagle_groups``.
    """
    if speculative is None or not speculative.use_eagle:
        return groups, ()
    # This release drops a block for every drafter of hidden states, DFlash and DSpark too.
    if not speculative.disable_eagle_block_drop:
        last = None
        if speculative.trailing_draft_layers and _is_partition(groups, layers):
            last = next(reversed(tuple(layers)))
        groups = tuple(
            replace(group, is_eagle_group=_has_mark(group) or last in group.layer_names)
            for group in groups
        )
    return groups, _warning(groups, speculative)


def _has_mark(group: KVCacheGroup) -> bool:
    return any(
        isinstance(spec, MLAAttentionSpec) and spec.non_causal_multi_token_decode
        for spec in iter_layer_specs(group.spec)
    )


def _is_partition(groups: Groups, layers: LayerSpecs) -> bool:
    names = [name for group in groups for name in group.layer_names]
    return len(names) == len(layers) and set(names) == set(layers)


def _warning(groups: Groups, speculative: SpeculativeSettings) -> tuple[PlanWarning, ...]:
    if any(group.is_eagle_group for group in groups):
        return ()
    holds_states = any(
        isinstance(spec, MambaSpec) for group in groups for spec in iter_layer_specs(group.spec)
    )
    if not holds_states:
        return ()
    return (
        PlanWarning(
            kind=WarningKind.NO_DRAFTER_GROUP,
            message=(
                f"Speculative decoding (method={speculative.method}) is enabled but no KV "
                "cache group could be identified as the draft model's."
            ),
        ),
    )
