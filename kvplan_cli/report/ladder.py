"""The memory: the budget of a rank as a subtraction ladder, or what was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kvplan_cli.report.document import BudgetDocument, EstimateDocument, FitDocument
from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.words import LINE_NAMES, gib, gib_unit, printable

# A narrower page would fold each note over several lines; the JSON has them all.
_WIDTH_FOR_NOTES: Final = 100


def memory_section(document: FitDocument, page: Page) -> Iterator[RenderableType]:
    """A ladder for each set of equal stages; one line where the memory was given."""
    if not document.budgets:
        yield Text(_given(document.available_bytes_per_worker))
    for stages, budget in _equal_stages(document.budgets):
        title = _title(stages, len(document.budgets))
        ladder = _ladder(title, budget, page)
        if budget.measure_it is None:
            yield ladder
        else:
            why = Text(f"Only the range can be told: {printable(budget.measure_it)}")
            yield Group(ladder, why)


def _given(available: Sequence[EstimateDocument]) -> str:
    sizes = [_sized(part) for part in available]
    notes = dict.fromkeys(part.note or part.source for part in available)
    size = sizes[0] if len(set(sizes)) == 1 else ", ".join(sizes)
    of_whom = "of each worker" if len(set(sizes)) == 1 else "of the workers in turn"
    return f"Memory for the KV cache {of_whom}: {size} ({printable(', '.join(notes))})"


def _sized(part: EstimateDocument) -> str:
    """The likely size, and its range where two decimals show one."""
    if gib(part.low) == gib(part.high):
        return gib_unit(part.likely)
    return f"{gib_unit(part.likely)} ({gib(part.low)} to {gib(part.high)})"


def _equal_stages(
    budgets: Sequence[BudgetDocument],
) -> Iterator[tuple[list[int], BudgetDocument]]:
    """Budgets with the stages that share them, in order."""
    sets: list[tuple[list[int], BudgetDocument]] = []
    for budget in budgets:
        for stages, known in sets:
            if _figures(known) == _figures(budget):
                stages.append(budget.stage)
                break
        else:
            sets.append(([budget.stage], budget))
    yield from sets


def _figures(budget: BudgetDocument) -> tuple[object, ...]:
    return (budget.total_memory_bytes_per_rank, budget.requested_bytes_per_rank, budget.lines)


def _title(stages: Sequence[int], number: int) -> str:
    if number == 1:
        return "Budget of a rank, GiB"
    if len(stages) == number:
        return "Budget of a rank, the same on all stages, GiB"
    noun = "stage" if len(stages) == 1 else "stages"
    return f"Budget of a rank of {noun} {', '.join(map(str, stages))}, GiB"


def _ladder(title: str, budget: BudgetDocument, page: Page) -> RenderableType:
    ranged = any(_is_range(line.bytes_per_rank) for line in budget.lines)
    headings = ("low", "likely", "high") if ranged else ("GiB",)
    columns = (
        Column(title="", figures=False),
        *(Column(title=heading) for heading in headings),
        Column(title="source", figures=False),
    )
    if ranged:
        title += " (low: each subtraction at its high end)"
    notes = page.width >= _WIDTH_FOR_NOTES
    rows = [
        [label, *sizes[: len(headings)], _source(size, notes)]
        for label, sizes, size in _rungs(budget, ranged)
    ]
    return grid(title, columns, rows, page)


def _rungs(
    budget: BudgetDocument, ranged: bool
) -> Iterator[tuple[str, list[str], EstimateDocument | None]]:
    """Rows from the top: each column subtracts to what it leaves at the bottom."""
    total, requested = budget.total_memory_bytes_per_rank, budget.requested_bytes_per_rank
    yield "total of the card", [gib(total)] * 3, None
    yield f"x {budget.gpu_memory_utilization:g} requested", [gib(requested)] * 3, None
    for line in budget.lines:
        size = line.bytes_per_rank
        worst_first = [gib(size.high), gib(size.likely), gib(size.low)]
        label = LINE_NAMES.get(line.name, line.name.replace("_", " "))
        yield f"- {label}", worst_first, size
    left = budget.available_bytes_per_rank
    sizes = [gib(left.low), gib(left.likely), gib(left.high)] if ranged else [gib(left.likely)]
    yield "= for the KV cache", sizes, left


def _is_range(estimate: EstimateDocument) -> bool:
    return estimate.low != estimate.high


def _source(estimate: EstimateDocument | None, notes: bool) -> str:
    if estimate is None:
        return ""
    return f"{estimate.source}: {estimate.note}" if notes and estimate.note else estimate.source
