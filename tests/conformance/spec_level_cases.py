"""Cases of the engine's functions on bare specs: sums over layers, without groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan_cli.grouping.group import Refusal, RefusedError
from kvplan_cli.grouping.uniform import is_uniform_spec
from kvplan_cli.planner.layers import check_layers, layers_longest_fitting, layers_need_bytes
from tests.conformance.compare import differences
from tests.conformance.plan_cases import layers_from, settings_from


def run_spec_level_case(case: Mapping[str, Any]) -> list[str]:
    """Every difference of one case."""
    layers = layers_from(case["layers"])
    settings = settings_from(case["config"])
    length, available = settings.max_model_len, case["available_memory"]
    refusal = check_layers(layers, available, settings)
    actual = {
        "max_memory_usage_bytes": layers_need_bytes(layers, length, settings),
        "estimate_max_model_len": layers_longest_fitting(layers, available, settings),
        "is_kv_cache_spec_uniform": _uniform(layers),
        "check_enough_kv_cache_memory": _error(refusal),
    }
    wanted = {
        key: value
        for key, value in case.items()
        if key not in ("name", "layers", "config", "available_memory")
    }
    return differences(wanted, actual)


def _uniform(layers: Mapping[str, Any]) -> Any:
    try:
        return is_uniform_spec(layers)
    except RefusedError as error:
        return _error(error.refusal)


def _error(refusal: Refusal | None) -> dict[str, str] | None:
    if refusal is None:
        return None
    return {"type": refusal.error_type, "message": refusal.message}
