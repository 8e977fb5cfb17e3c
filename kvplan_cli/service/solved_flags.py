"""The serve command with the value that was solved for."""

from __future__ import annotations

from typing import Final

from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results import Serving
from kvplan_cli.results_solve import Quantity
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.serving import served

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


def solved(
    inputs: Inputs, outcome: Plan | Refusal | None, quantity: Quantity, value: str | None
) -> Serving | None:
    """The same with the value that was solved for, where it is a flag."""
    serving = served(inputs, outcome)
    if serving is None or value is None or quantity not in _FLAGS:
        return serving
    name, read = _FLAGS[quantity]
    return serving.with_flags(**{name: read(value)})
