"""Figures of bare layers, before any group: what each would need on its own.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``max_memory_usage_bytes``,
``estimate_max_model_len``, ``check_enough_kv_cache_memory``).
"""

from __future__ import annotations

from kvplan_cli.grouping.group import Refusal, RefusedError
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.grouping.strategy import group_layers
from kvplan_cli.planner.fitting import no_memory, too_large
from kvplan_cli.planner.layout_choice import resolve_layout
from kvplan_cli.planner.plan import worker_memories
from kvplan_cli.specs.bundle import LayerSpecs, layers_by_spec
from kvplan_cli.units import largest_fitting


def layers_need_bytes(layers: LayerSpecs, max_model_len: int, settings: PlannerSettings) -> int:
    """Bytes that one request needs, each layer counted with its own page."""
    limits = settings.request_limits
    return sum(
        spec.max_memory_usage_bytes(max_model_len, limits) * len(names)
        for spec, names in layers_by_spec(layers).items()
    )


def layers_longest_fitting(layers: LayerSpecs, budget_bytes: int, settings: PlannerSettings) -> int:
    """Tokens of the longest request whose layers fit the budget; 0 when not one token does."""
    return largest_fitting(
        lambda length: layers_need_bytes(layers, length, settings) <= budget_bytes,
        settings.max_model_len,
    )


def check_layers(
    layers: LayerSpecs, available_bytes: int, settings: PlannerSettings
) -> Refusal | None:
    """Whether one request at max_model_len fits beside the null block; None when it does."""
    if not layers:
        return None
    try:
        layout = resolve_layout([layers], settings)
        groups = group_layers(layers, settings, layout).groups
        (worker,) = worker_memories([layers], [available_bytes], settings, layout, groups)
    except RefusedError as error:
        return error.refusal
    length, available = settings.max_model_len, worker.checkable_bytes
    if available <= 0:
        return no_memory(worker, length)
    needed = layers_need_bytes(layers, length, settings)
    if needed <= available:
        return None
    estimate = layers_longest_fitting(layers, available, settings)
    return too_large(worker, length, needed, available, estimate)
