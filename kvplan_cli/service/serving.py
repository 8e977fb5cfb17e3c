"""The serve command that a plan stands for: what was given, with what the plan found."""

from __future__ import annotations

from typing import Any, Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results import Serving
from kvplan_cli.results_solve import Quantity
from kvplan_cli.service.inputs import Inputs

# Quantities that are flags, and how their value is read.
_FLAGS: Final = {
    Quantity.GPU_MEMORY_UTILIZATION: ("gpu_memory_utilization", float),
    Quantity.KV_MEM: ("kv_cache_memory_bytes", int),
    Quantity.MAX_MODEL_LEN: ("max_model_len", int),
    Quantity.MAX_NUM_BATCHED_TOKENS: ("max_num_batched_tokens", int),
    Quantity.MAX_NUM_SEQS: ("max_num_seqs", int),
    Quantity.TENSOR_PARALLEL_SIZE: ("tensor_parallel_size", int),
    Quantity.KV_CACHE_DTYPE: ("kv_cache_dtype", str),
}


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


def solved(
    inputs: Inputs, outcome: Plan | Refusal | None, quantity: Quantity, value: str | None
) -> Serving | None:
    """The same with the value that was solved for, where it is a flag."""
    serving = served(inputs, outcome)
    if serving is None or value is None or quantity not in _FLAGS:
        return serving
    name, read = _FLAGS[quantity]
    return serving.with_flags(**{name: read(value)})
