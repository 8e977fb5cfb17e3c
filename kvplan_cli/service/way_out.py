"""The closest change that makes a refused model fit; each one planned before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvplan_cli.planner.results import Plan, Refusal, RefusalKind
from kvplan_cli.results import WayOut
from kvplan_cli.service.inputs import Inputs

Planner = Callable[[Inputs], Plan | Refusal | None]

# Above this the engine's own context no longer fits beside its share of the card.
MAX_GPU_MEMORY_UTILIZATION = 0.98
UTILIZATION_STEP = 0.01
MAX_TENSOR_PARALLEL_SIZE = 64


def find_way_out(inputs: Inputs, outcome: Plan | Refusal, planned: Planner) -> WayOut | None:
    """Fewer requests or a shorter context, more of the card, more ranks; None if none helps."""
    if isinstance(outcome, Plan):
        return None
    for flag, value, changed in _candidates(inputs, outcome):
        result = planned(changed)
        if isinstance(result, Plan) and result.max_concurrency is not None:
            return WayOut(
                flag=flag,
                value=value,
                effect=f"{result.max_concurrency:.2f} requests of {result.max_model_len:,} tokens "
                "fit at a time",
            )
    return None


def _candidates(inputs: Inputs, refusal: Refusal) -> Iterator[tuple[str, str, Inputs]]:
    if refusal.kind is RefusalKind.TOO_FEW_STATES and refusal.available_blocks:
        requests = refusal.available_blocks
        yield "--max-num-seqs", str(requests), inputs.with_args(max_num_seqs=requests)
    length = refusal.estimated_max_model_len
    if length:
        yield "--max-model-len", str(length), inputs.with_args(max_model_len=length)
    if not inputs.memory.kv_mem_bytes and inputs.args.kv_cache_memory_bytes is None:
        utilization = inputs.args.gpu_memory_utilization + UTILIZATION_STEP
        while utilization <= MAX_GPU_MEMORY_UTILIZATION + 1e-9:
            value = round(utilization, 2)
            yield (
                "--gpu-memory-utilization",
                f"{value:.2f}",
                inputs.with_args(gpu_memory_utilization=value),
            )
            utilization += UTILIZATION_STEP
    ranks = inputs.args.tensor_parallel_size * 2
    while ranks <= MAX_TENSOR_PARALLEL_SIZE:
        yield (
            "--tensor-parallel-size",
            str(ranks),
            inputs.with_args(tensor_parallel_size=ranks),
        )
        ranks *= 2
