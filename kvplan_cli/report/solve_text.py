"""What stands beside the bare value of ``kvplan solve``, for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kvplan_cli.formulas.kinds import SPEC_WORDS
from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.sheet import drawn
from kvplan_cli.report.solve_document import GroupCostDocument, SolveDocument, TriedDocument
from kvplan_cli.report.words import count, gib_unit, plural, printable, requests
from kvplan_cli.units import KIB, MIB, spans

_COST_COLUMNS: Final = (
    Column(title="tokens"),
    Column(title="group"),
    Column(title="kind", figures=False),
    Column(title="layers"),
    Column(title="blocks a\nrequest"),
    Column(title="MiB a\nrequest"),
    Column(title="MiB\nfixed"),
    Column(title="KiB a\ntoken"),
)
_TRIED_COLUMNS: Final = (
    Column(title="value", align="left"),
    Column(title="requests\nat a time"),
    Column(title="", figures=False),
)
_SIZES: Final = ("kv-mem", "gpu-mem")


def render_solve(document: SolveDocument, page: Page) -> str:
    """The question, what a request costs, what was tried, notices, and the answer last."""
    return drawn(list(_sections(document, page)), answer(document), page)


def _sections(document: SolveDocument, page: Page) -> Iterator[RenderableType]:
    yield Text(_question(document))
    if document.request_costs:
        yield grid("What one request costs", _COST_COLUMNS, list(_cost_rows(document)), page)
    if document.tried:
        yield from _tried(document, page)
    for notice in document.notices:
        yield Text(f"{notice.kind.capitalize()}: {printable(notice.message)}")


def _tried(document: SolveDocument, page: Page) -> Iterator[RenderableType]:
    """A row for each value that could be planned; the refused ones in one line."""
    refused = [each for each in document.tried if _is_refused(each)]
    rows = [
        (
            each.value,
            requests(each.max_concurrency_requests),
            each.binding.message if each.binding else "holds",
        )
        for each in document.tried
        if not _is_refused(each)
    ]
    if rows:
        yield grid(f"Tried: {document.method_reason}", _TRIED_COLUMNS, rows, page)
    if refused:
        values = [each.value for each in refused]
        numbers = all(value.isdecimal() for value in values)
        shown = spans([int(value) for value in values]) if numbers else ",".join(values)
        yield Text(f"Refused by vLLM: {shown.replace(',', ', ')}")


def _is_refused(tried: TriedDocument) -> bool:
    return tried.binding is not None and tried.binding.shortage == "engine"


def _question(document: SolveDocument) -> str:
    words = [document.model.architecture, f"vLLM {document.engine_release}"]
    needs = document.needs
    if needs.concurrency_requests is not None:
        words.append(f"needs {needs.concurrency_requests:,g} requests at a time")
    if needs.requests:
        mix = ", ".join(f"{each.number:,} x {each.tokens:,} tokens" for each in needs.requests)
        words.append(f"needs {mix} at a time")
    if document.decided_on != "given":
        words.append(f"on the {document.decided_on} end of the memory estimate")
    return f"{printable(document.model.name)}: {printable(', '.join(words))}"


def _cost_rows(document: SolveDocument) -> Iterator[tuple[str, ...]]:
    """A row for each run of groups that cost alike."""

    def figures(cost: GroupCostDocument) -> tuple[object, ...]:
        return (cost.request_tokens, cost.kind, cost.blocks, cost.fixed_bytes_all_workers)

    for _, run in groupby(document.request_costs, key=figures):
        costs = list(run)
        first, last = costs[0], costs[-1]
        groups = str(first.group) if len(costs) == 1 else f"{first.group}-{last.group}"
        yield (
            count(first.request_tokens),
            groups,
            SPEC_WORDS.get(first.kind, first.kind),
            count(sum(cost.num_layers for cost in costs)),
            count(sum(cost.blocks for cost in costs)),
            _scaled(sum(cost.bytes_all_workers for cost in costs), MIB),
            _scaled(sum(cost.fixed_bytes_all_workers for cost in costs), MIB),
            _scaled(sum(cost.bytes_per_token_all_workers for cost in costs), KIB),
        )


def _scaled(size: float, unit: int) -> str:
    return f"{size / unit:,.2f}"


def answer(document: SolveDocument) -> str:
    """One sentence: the value and what it holds, then what binds."""
    binding = document.binding
    lacks = printable(binding.message)
    at = "" if binding.at_value is None else f"at {_shown(document, binding.at_value)}: "
    if document.text is None:
        return f"No {document.quantity} holds: {at}{lacks}."
    return (
        f"{document.quantity} {_shown(document, document.text)}: {_holds(document)}; {at}{lacks}."
    )


def _shown(document: SolveDocument, value: str) -> str:
    if document.quantity in _SIZES:
        return f"{count(int(value))} bytes ({gib_unit(int(value))})"
    return count(int(value)) if value.isdecimal() else value


def _holds(document: SolveDocument) -> str:
    outcome = document.outcome
    if outcome is None or outcome.max_concurrency_requests is None:
        return "nothing is cached"
    many = requests(outcome.max_concurrency_requests)
    return (
        f"{many} {'request' if many == '1.00' else 'requests'} of "
        f"{count(outcome.max_model_len_tokens)} tokens at a time"
        f" ({plural(outcome.num_blocks or 0, 'block')})"
    )
