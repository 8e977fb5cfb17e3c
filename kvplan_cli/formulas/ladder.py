"""What is there for the cache: the ladder of a card, or what was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan_cli.formulas.arithmetic import ceil, minus, named, times
from kvplan_cli.formulas.blocks import of_workers
from kvplan_cli.formulas.formula import Formula, Unit
from kvplan_cli.memory.budget import Estimate, RankBudget, Source

_WORKER = "vllm/v1/worker/gpu_worker.py:Worker.determine_available_memory"
_OTHER_END = {"low": "high", "likely": "likely", "high": "low"}


def at_end(estimate: Estimate, end: str) -> int:
    """The bytes at one end of a range: ``low``, ``likely`` or ``high``."""
    return int(getattr(estimate, end))


def line_at_end(estimate: Estimate, end: str) -> int:
    """What a line takes where ``end`` is left: the least is left when it takes most."""
    return at_end(estimate, _OTHER_END[end])


def available_formulas(
    budgets: Sequence[RankBudget], available: Sequence[Estimate], end: str
) -> Iterator[Formula]:
    """Bytes for the cache of a rank of each stage, at the end of the range that decides."""
    yield from of_workers([_requested(budget) for budget in budgets])
    yield from of_workers([_left(budget, end) for budget in budgets])
    if not budgets:
        yield from of_workers([_given(estimate, end) for estimate in available])


def _given(estimate: Estimate, end: str) -> Formula:
    origin = estimate.note or estimate.source.value
    return Formula(
        name="available",
        expression=named(origin, at_end(estimate, end)),
        result=at_end(estimate, end),
        unit=Unit.BYTES,
        source=origin,
        note=_range_note(estimate, end),
    )


def _requested(budget: RankBudget) -> Formula:
    total = named("total of the card", budget.total_memory_bytes)
    share = named("gpu_memory_utilization", budget.gpu_memory_utilization)
    return Formula(
        name="requested",
        expression=ceil(times(total, share)),
        result=budget.requested_bytes,
        unit=Unit.BYTES,
        source="vllm/v1/worker/utils.py:request_memory",
    )


def _left(budget: RankBudget, end: str) -> Formula:
    taken = [
        named(line.name.replace("_", " "), line_at_end(line.bytes_per_rank, end))
        for line in budget.lines
    ]
    return Formula(
        name="available",
        expression=minus(named("requested", budget.requested_bytes), *taken),
        result=at_end(budget.available, end),
        unit=Unit.BYTES,
        source=_WORKER,
        note=_range_note(budget.available, end),
    )


def _range_note(estimate: Estimate, end: str) -> str:
    if estimate.is_certain:
        return ""
    if estimate.source is Source.MEASURED:
        return "in the middle of what is printed so"
    most = ", with every line at its most" if end == "low" else ""
    return f"the {end} end of an estimate{most}"
