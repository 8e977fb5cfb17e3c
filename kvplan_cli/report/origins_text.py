"""Every input with its value and where it came from, and the memory's sources in full."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan_cli.report.document import BudgetDocument, FitDocument
from kvplan_cli.report.sheet import Sentence
from kvplan_cli.report.words import LINE_NAMES, printable


def origin_lines(document: FitDocument) -> Iterator[Sentence]:
    """Lines for ``--verbose``; nothing of them is cut."""
    yield Sentence(text="Inputs")
    yield _line("model", document.model.name, document.model.origin)
    for given in document.inputs:
        yield _line(given.key, str(given.value), given.origin)
    sources = list(dict.fromkeys(_sources(document)))
    if sources:
        yield Sentence(text="")
        yield Sentence(text="Sources of the memory")
        yield from (Sentence(text=printable(source)) for source in sources)


def _line(key: str, value: str, origin: str) -> Sentence:
    return Sentence(text=printable(f"{key} = {value}   ({origin})"))


def _sources(document: FitDocument) -> Iterator[str]:
    for budget in document.budgets:
        yield from _budget_sources(budget)


def _budget_sources(budget: BudgetDocument) -> Iterator[str]:
    for line in budget.lines:
        note = f": {line.bytes_per_rank.note}" if line.bytes_per_rank.note else ""
        yield f"{LINE_NAMES.get(line.name, line.name)}: {line.bytes_per_rank.source}{note}"
