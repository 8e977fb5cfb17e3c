"""Asks an installed engine of release 0.32 for groups and their drafter marks.

Run by the engine's interpreter, never by kvplan's: ``python engine_groups.py CASES OUT``, both
JSON lines. A case is {name, workers: [layers], config: {layout, speculative, ...}}; the answer
adds ``release``, ``groups`` (layer names and mark) and ``warnings``.
"""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any

import torch
import vllm
from vllm.v1 import kv_cache_interface as interface
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_layout import KVCacheLayout


class Warnings(logging.Handler):
    """Keeps what the engine warns about."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def spec(fields: dict[str, Any]) -> Any:
    """The engine's spec object of a plain mapping."""
    values = dict(fields)
    cls = getattr(interface, values.pop("class"))
    if "dtype" in values:
        values["dtype"] = getattr(torch, values["dtype"])
    if "dtypes" in values:
        values["dtypes"] = tuple(getattr(torch, name) for name in values["dtypes"])
        values["shapes"] = tuple(tuple(shape) for shape in values["shapes"])
    if "cache_role" in values:
        values["cache_role"] = interface.SparseCacheRole(values["cache_role"])
    return cls(**values)


def speculative(fields: dict[str, Any] | None) -> Any:
    """The engine's own methods on the drafter's settings."""
    if fields is None:
        return None
    config = object.__new__(vllm.config.SpeculativeConfig)
    values = {"disable_eagle_block_drop": False, "draft_model_config": None} | fields
    config.__dict__.update(values)
    return config


def answer(case: dict[str, Any], warnings: Warnings) -> dict[str, Any]:
    """The case with the engine's groups, or its refusal."""
    config = case["config"]
    specs = {name: spec(f) for worker in case["workers"] for name, f in worker.items()}
    vllm_config = SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=config["max_model_len"],
            hf_config=SimpleNamespace(model_type=config.get("model_type", "llama")),
        ),
        cache_config=SimpleNamespace(
            get_resolved_kv_cache_layout=lambda: KVCacheLayout[config["layout"]]
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=config["disable_hybrid_kv_cache_manager"]
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=speculative(config.get("speculative")),
    )
    warnings.lines.clear()
    try:
        groups = kv_cache_utils.get_kv_cache_groups(vllm_config, specs)
    except Exception as error:
        return case | {"error": {"type": type(error).__name__, "message": str(error)}}
    return case | {
        "release": vllm.__version__,
        "groups": [
            {"layer_names": list(g.layer_names), "is_eagle_group": g.is_eagle_group} for g in groups
        ],
        "warnings": list(warnings.lines),
    }


def main(source: str, target: str) -> None:
    """Answer every case of a file."""
    warnings = Warnings()
    logging.getLogger("vllm").addHandler(warnings)
    with open(source, encoding="utf-8") as cases, open(target, "w", encoding="utf-8") as out:
        for line in cases:
            out.write(json.dumps(answer(json.loads(line), warnings)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
