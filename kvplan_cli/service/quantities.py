"""Each quantity of ``solve``: how it is put into a plan, its grid, and the range searched.

A value is ``number x step``, so that numbers are whole and one search serves them all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.errors import EngineRefusalError, InputError, Problem
from kvplan_cli.loader.flags import KV_CACHE_DTYPES
from kvplan_cli.loader.known_memory import KnownMemory
from kvplan_cli.recall import Call
from kvplan_cli.results_solve import Quantity
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.target import find_target
from kvplan_cli.service.way_out import MAX_GPU_MEMORY_UTILIZATION, MAX_TENSOR_PARALLEL_SIZE
from kvplan_cli.settings.batch import TIER_BOUNDS
from kvplan_cli.units import MIB, largest_fitting
from kvplan_cli.values import dataclass

Setter = Callable[[Inputs, Decimal], Inputs]

# Ends of ranges that nothing else bounds; no machine comes near them.
_MOST_KV_BYTES: Final = 1 << 50
_MOST_GPU_BYTES: Final = 1 << 42
_MOST_TOKENS: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A run of values on which needs hold from one end on: ``low`` to ``high``, both included.

    why: what ends it at the far end, as a sentence's end.
    """

    low: int
    high: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A quantity on which the needs are monotone.

    most: the largest value is wanted, not the smallest. ranges: in the order of preference;
    several where the needs are monotone inside each only. method: why one search is right.
    """

    step: Decimal
    most: bool
    put: Setter
    ranges: Callable[[Inputs, Decimal, Call], tuple[Range, ...]]
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumerated:
    """A quantity that is tried value by value. method: why no search would be right."""

    values: tuple[str, ...]
    put: Callable[[Inputs, str], Inputs]
    method: str


def flag_of(quantity: Quantity) -> str | None:
    """The flag that takes the value; None for what is only a result."""
    return None if quantity is Quantity.CONCURRENCY else f"--{quantity.value}"


def _with_flag(name: str) -> Setter:
    def put(inputs: Inputs, value: Decimal) -> Inputs:
        return inputs.with_args(**{name: int(value)})

    return put


def _with_utilization(inputs: Inputs, value: Decimal) -> Inputs:
    return inputs.with_args(gpu_memory_utilization=float(value))


def _with_kv_mem(inputs: Inputs, value: Decimal) -> Inputs:
    memory = KnownMemory(gpu=inputs.memory.gpu, kv_mem_bytes=(int(value),))
    return replace(inputs.with_args(kv_cache_memory_bytes=None), memory=memory)


def _with_gpu_mem(inputs: Inputs, value: Decimal) -> Inputs:
    size = int(value)
    memory = replace(inputs.memory, gpu_mem_bytes=size)
    cards = tuple(replace(card, total_memory_bytes=size) for card in inputs.stage_gpus)
    return replace(inputs, memory=memory, gpu=cards[0], stage_gpus=cards)


def _utilizations(inputs: Inputs, step: Decimal, recall: Call) -> tuple[Range, ...]:
    most = Decimal(str(MAX_GPU_MEMORY_UTILIZATION))
    why = f"above {most} the engine's own context has no room beside its share"
    return (Range(low=1, high=int(most // step), why=why),)


def _kv_sizes(inputs: Inputs, step: Decimal, recall: Call) -> tuple[Range, ...]:
    return (Range(low=1, high=int(_MOST_KV_BYTES // step), why="no machine has more"),)


def _gpu_sizes(inputs: Inputs, step: Decimal, recall: Call) -> tuple[Range, ...]:
    """One run for each class of cards: a larger class starts with larger batches."""
    bounds = [int(-(-bound // step)) for bound in TIER_BOUNDS]
    lows, highs = [1, *bounds], [*(bound - 1 for bound in bounds), int(_MOST_GPU_BYTES // step)]
    return tuple(
        Range(low=low, high=high, why="no card has more")
        for low, high in zip(lows, highs, strict=True)
        if low <= high
    )


def _lengths(inputs: Inputs, step: Decimal, recall: Call) -> tuple[Range, ...]:
    def taken(number: int) -> bool:
        try:
            find_target(inputs.with_args(max_model_len=int(number * step)), recall)
        except EngineRefusalError:
            return False
        return True

    # The shortest may be refused for its batch: what the model takes is the start.
    start = max(1, int(_own_length(inputs, recall) // step))
    most = int(_MOST_TOKENS // step)
    longest = start - 1 + largest_fitting(lambda more: taken(start - 1 + more), most - start + 1)
    longest = max(longest, start)
    return (Range(low=1, high=longest, why="the model takes no longer requests"),)


def _own_length(inputs: Inputs, recall: Call) -> int:
    try:
        target = find_target(inputs.with_args(max_model_len=AUTO_MAX_MODEL_LEN), recall)
    except EngineRefusalError:
        # Models without a length limit of their own take no ``auto``.
        target = find_target(inputs.with_args(max_model_len=None), recall)
    return target.settings.max_model_len


def _batches(inputs: Inputs, step: Decimal, recall: Call) -> tuple[Range, ...]:
    target = find_target(inputs.with_args(max_num_batched_tokens=None), recall)
    seqs = 1 if target.model is None else target.model.settings.max_num_seqs
    most = min(_MOST_TOKENS, seqs * target.settings.max_model_len)
    why = "a step of max_num_seqs whole requests holds no more"
    return (Range(low=1, high=int(most // step), why=why),)


def _sequences(inputs: Inputs, step: Decimal, recall: Call) -> tuple[Range, ...]:
    target = find_target(inputs.with_args(max_num_seqs=None), recall)
    most = target.settings.max_num_batched_tokens
    why = "the engine takes no more sequences than max_num_batched_tokens"
    return (Range(low=1, high=int(most // step), why=why),)


def _with_tensor_parallel_size(inputs: Inputs, value: str) -> Inputs:
    return inputs.with_args(tensor_parallel_size=int(value))


def _with_kv_cache_dtype(inputs: Inputs, value: str) -> Inputs:
    return inputs.with_args(kv_cache_dtype=value)


_MORE_MEMORY: Final = "more memory never means fewer blocks: one search"

SEARCHED: Final[Mapping[Quantity, Searched]] = {
    Quantity.GPU_MEMORY_UTILIZATION: Searched(
        step=Decimal("0.01"),
        most=False,
        put=_with_utilization,
        ranges=_utilizations,
        method=_MORE_MEMORY,
    ),
    Quantity.KV_MEM: Searched(
        step=Decimal(1), most=False, put=_with_kv_mem, ranges=_kv_sizes, method=_MORE_MEMORY
    ),
    Quantity.GPU_MEM: Searched(
        step=Decimal(MIB),
        most=False,
        put=_with_gpu_mem,
        ranges=_gpu_sizes,
        method="more memory never means fewer blocks inside a class of cards, and the next "
        "class starts with larger batches: one search in each, smallest first",
    ),
    Quantity.MAX_MODEL_LEN: Searched(
        step=Decimal(1),
        most=True,
        put=_with_flag("max_model_len"),
        ranges=_lengths,
        method="a longer request never needs fewer blocks: one search",
    ),
    Quantity.MAX_NUM_BATCHED_TOKENS: Searched(
        step=Decimal(1),
        most=True,
        put=_with_flag("max_num_batched_tokens"),
        ranges=_batches,
        method="a larger batch never leaves more memory: one search",
    ),
    Quantity.MAX_NUM_SEQS: Searched(
        step=Decimal(1),
        most=True,
        put=_with_flag("max_num_seqs"),
        ranges=_sequences,
        method="more sequences never leave more memory: one search",
    ),
}

ENUMERATED: Final[Mapping[Quantity, Enumerated]] = {
    Quantity.TENSOR_PARALLEL_SIZE: Enumerated(
        values=tuple(str(ranks) for ranks in range(1, MAX_TENSOR_PARALLEL_SIZE + 1)),
        put=_with_tensor_parallel_size,
        method="more ranks may be refused, or hold copies of the same heads: each is tried, "
        "fewest first",
    ),
    Quantity.KV_CACHE_DTYPE: Enumerated(
        values=KV_CACHE_DTYPES,
        put=_with_kv_cache_dtype,
        method="types have no order: each is tried in the order of the engine's own list, which "
        "begins with the model's type",
    ),
}

# The step of what is read off a plan.
CONCURRENCY_STEP: Final = Decimal("0.01")


def check_question(inputs: Inputs, quantity: Quantity) -> None:
    """Refuse a question whose answer could not depend on the quantity.

    Raises: InputError.
    """
    args, memory = inputs.args, inputs.memory
    problems = []
    if args.max_model_len == AUTO_MAX_MODEL_LEN and quantity is not Quantity.MAX_MODEL_LEN:
        problems.append(
            Problem(
                where="--max-model-len",
                reason="auto takes whatever fits, so that nothing needs to be solved",
                way_out="give the length that is needed",
            )
        )
    if quantity in (Quantity.GPU_MEMORY_UTILIZATION, Quantity.GPU_MEM):
        known = "--kv-mem" if memory.kv_mem_bytes else "--kv-cache-memory-bytes"
        if memory.kv_mem_bytes or args.kv_cache_memory_bytes is not None:
            problems.append(
                Problem(
                    where=f"--for {quantity.value}",
                    reason=f"{known} says what is left for the cache, whatever the card",
                    way_out=f"drop {known} and name the card with --gpu",
                )
            )
    if quantity is Quantity.GPU_MEM and inputs.told is not None:
        problems.append(
            Problem(
                where=f"--for {quantity.value}",
                reason="what was measured on one card says nothing of another",
                way_out="leave --from-log and --profile out",
            )
        )
    by_memory = (Quantity.GPU_MEMORY_UTILIZATION, Quantity.GPU_MEM, Quantity.KV_MEM)
    if args.num_gpu_blocks_override is not None and quantity in by_memory:
        problems.append(
            Problem(
                where="--num-gpu-blocks-override",
                reason="the blocks are given, whatever the memory",
                way_out="leave it out",
            )
        )
    if problems:
        raise InputError(problems)


@dataclasses.dataclass(slots=True, kw_only=True)
class Grid:
    """Values of a step, as numbers and as they are printed."""

    step: Decimal

    def value(self, number: int) -> Decimal:
        """The value that stands at a whole number."""
        return number * self.step

    def text(self, number: int) -> str:
        """The value as it is printed and typed: no exponent, the step's decimals."""
        return f"{self.value(number):f}"
