"""Times the engine's own planner; run by an interpreter that has the engine, never by kvplan's.

Reads {"layers", "settings", "auto_fit", "seconds"} as JSON on stdin, prints
{"seconds_per_plan", "num_blocks"}.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from types import SimpleNamespace
from typing import Any

logging.disable(logging.CRITICAL)

import torch  # noqa: E402
from vllm.v1 import kv_cache_interface as interface  # noqa: E402
from vllm.v1.core import kv_cache_planning as planning  # noqa: E402
from vllm.v1.core.kv_cache_utils import (  # noqa: E402
    get_kv_cache_capacity,
)
from vllm.v1.kv_cache_layout import KVCacheLayout  # noqa: E402


def spec(fields: dict[str, Any]) -> Any:
    """The engine's spec object of a plain mapping."""
    values = dict(fields)
    cls = getattr(interface, values.pop("class"))
    if "dtype" in values:
        values["dtype"] = getattr(torch, values["dtype"])
    if "dtypes" in values:
        values["dtypes"] = tuple(getattr(torch, name) for name in values["dtypes"])
        values["shapes"] = tuple(tuple(shape) for shape in values["shapes"])
    return cls(**values)


class Cache(SimpleNamespace):
    """The engine's cache settings, as far as its planner reads them."""

    def get_resolved_kv_cache_layout(self) -> Any:
        return KVCacheLayout.LBNHC


def config(settings: dict[str, Any], auto_fit: bool, mode: str) -> Any:
    """The engine's settings, as far as its planner reads them."""
    length = settings["max_model_len"]
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=length,
            original_max_model_len=-1 if auto_fit else length,
            supports_kv_cache_grouping=False,
        ),
        cache_config=Cache(
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            mamba_cache_mode=mode,
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, tensor_parallel_size=1),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        device_config=SimpleNamespace(device_type="cuda"),
        num_prefill_lookahead_tokens=0,
        max_in_flight_tokens=settings["max_num_batched_tokens"]
        * settings["max_concurrent_batches"],
    )


def main() -> None:
    """Plan as often as the given seconds allow, and print the best seconds a plan."""
    request = json.load(sys.stdin)
    specs = {name: spec(fields) for name, fields in request["layers"].items()}
    states = any(fields["class"] == "MambaSpec" for fields in request["layers"].values())
    settings = request["settings"]

    def plan() -> Any:
        vllm_config = config(settings, request["auto_fit"], "align" if states else "none")
        groups = planning.get_global_kv_cache_groups(vllm_config, [specs])
        (planned,) = planning.get_kv_cache_configs(
            vllm_config, [specs], [settings["available_bytes"]], groups
        )
        get_kv_cache_capacity(vllm_config, planned)
        return planned

    planned = plan()
    best, end = float("inf"), time.perf_counter() + request["seconds"]
    while time.perf_counter() < end:
        start = time.perf_counter()
        plan()
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"seconds_per_plan": best, "num_blocks": planned.num_blocks}))


if __name__ == "__main__":
    main()
