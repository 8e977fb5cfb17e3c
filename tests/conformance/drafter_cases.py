"""Cases of drafter marks by the spec and the position, as release 0.32 finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan_cli.engine_rules import engine_rules
from kvplan_cli.grouping.group import RefusedError
from kvplan_cli.grouping.settings import PlannerSettings, SpeculativeSettings
from kvplan_cli.grouping.strategy import group_layers
from kvplan_cli.layouts import KVCacheLayout
from tests.conformance.compare import differences
from tests.conformance.plan_cases import layers_from

# The release that marked so, and that the cases were put to.
RELEASE = "0.32.0"
# Model types whose drafters register last whatever the method.
TRAILING_MODEL_TYPES = ("deepseek_v4", "deepseek_v41")
INPUTS = ("name", "workers", "config", "release")


def run_drafter_case(case: Mapping[str, Any]) -> list[str]:
    """Every difference of one case."""
    (worker,) = case["workers"]
    layers, config = layers_from(worker), case["config"]
    drafter = config["speculative"]
    speculative = SpeculativeSettings(
        method=drafter["method"],
        num_speculative_tokens=drafter["num_speculative_tokens"],
        trailing_draft_layers=drafter["method"] == "mtp"
        or config["model_type"] in TRAILING_MODEL_TYPES,
    )
    settings = PlannerSettings(
        max_model_len=config["max_model_len"],
        max_num_batched_tokens=2048,
        max_concurrent_batches=2,
        disable_hybrid_kv_cache_manager=config["disable_hybrid_kv_cache_manager"],
        speculative=speculative,
        rules=engine_rules(RELEASE),
    )
    actual: dict[str, Any]
    try:
        grouping = group_layers(layers, settings, KVCacheLayout(config["layout"]))
    except RefusedError as error:
        refusal = error.refusal
        actual = {"error": {"type": refusal.error_type, "message": refusal.message}}
    else:
        actual = {
            "groups": [
                {"layer_names": list(g.layer_names), "is_eagle_group": g.is_eagle_group}
                for g in grouping.groups
            ],
            "warnings": [warning.message for warning in grouping.warnings],
        }
    return differences({k: v for k, v in case.items() if k not in INPUTS}, actual)
