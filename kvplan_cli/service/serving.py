"""The serve command that a plan stands for: what was given, with what the plan found."""

from __future__ import annotations

from typing import Any

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results import Serving
from kvplan_cli.service.inputs import Inputs


def served(inputs: Inputs, outcome: Plan | Refusal | None) -> Serving | None:
    """The inputs' flags with the length that the plan settled, and the cache's memory if given.

    Memory that differs between ranks is no flag of the engine and stays out.
    """
    serving = inputs.serving
    if serving is None:
        return None
    found: dict[str, Any] = {}
    if isinstance(outcome, Plan) and inputs.args.max_model_len == AUTO_MAX_MODEL_LEN:
        found["max_model_len"] = outcome.max_model_len
    memory = inputs.memory.kv_mem_bytes
    if len(set(memory)) == 1:
        found["kv_cache_memory_bytes"] = memory[0]
    return serving.with_flags(**found)
