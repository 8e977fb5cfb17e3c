"""What the cache holds, and what each worker makes of its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kvplan_cli.report.document import FitDocument, OutcomeDocument, PlanDocument, WorkerDocument
from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.words import UNKNOWN, count, gib, gib_unit, plural, requests

_WORKER_COLUMNS: Final = (
    Column(title="worker"),
    Column(title="GiB\navailable"),
    Column(title="bytes a\nblock"),
    Column(title="blocks\nalone"),
    Column(title="GiB a\nrequest"),
    Column(title="GiB\nunused"),
    Column(title="", figures=False),
)


def workers_table(plan: PlanDocument, page: Page) -> RenderableType:
    """Which worker limits all, and what the others leave unused."""
    rows = [
        (
            str(worker.worker),
            gib(worker.available_bytes),
            count(worker.bytes_per_block),
            count(worker.num_blocks_alone),
            gib(worker.request_need_bytes),
            gib(worker.unused_bytes),
            "limits" if worker.worker == plan.limiting_worker else "",
        )
        for worker in plan.workers
    ]
    title = f"{plural(len(plan.workers), 'worker')}, one a pipeline stage"
    table = grid(title, _WORKER_COLUMNS, rows, page)
    return Group(table, Text(_limit_sentence(plan)))


def _limit_sentence(plan: PlanDocument) -> str:
    alone = [worker.num_blocks_alone for worker in plan.workers]
    if len(set(alone)) == 1:
        return f"All workers hold {count(alone[0])} blocks."
    unused = sum(_lost_to_others(worker) for worker in plan.workers)
    return (
        f"Worker {plan.limiting_worker} limits all to {count(plan.num_blocks)} blocks; "
        f"the others could hold more and leave {gib_unit(unused)} unused."
    )


def _lost_to_others(worker: WorkerDocument) -> int:
    return worker.bytes_per_block * max(0, worker.num_blocks_alone - worker.num_blocks)


def capacity_table(document: FitDocument, page: Page) -> RenderableType:
    """Blocks, both token capacities, concurrency and longest context; as a range where it is."""
    verdict = document.verdict
    ends = (verdict.at_low, verdict.at_likely, verdict.at_high)
    outcomes = ends[:1] if len(set(ends)) == 1 else ends
    headings = ("low", "likely", "high") if len(outcomes) > 1 else ("",)
    rows = [
        (label, *(cell(outcome) for outcome in outcomes)) for label, cell in _outcome_rows(document)
    ]
    figures = [(label, figure) for label, figure in _single_rows(document)]
    columns = (
        Column(title="", figures=False),
        *(Column(title=heading) for heading in headings),
    )
    if len(outcomes) == 1:
        return grid("Capacity", columns, [*rows, *figures], page)
    single = (Column(title="", figures=False), Column(title=verdict.decided_on))
    return Group(
        grid("Capacity over the range of the memory", columns, rows, page),
        Text(),
        grid("Further figures", single, figures, page),
    )


def _outcome_rows(
    document: FitDocument,
) -> Iterator[tuple[str, Callable[[OutcomeDocument], str]]]:
    yield "fits", lambda outcome: "yes" if outcome.fits else "no"
    yield "blocks", lambda outcome: count(outcome.num_blocks)
    yield "tokens", lambda outcome: count(outcome.kv_cache_size_tokens)
    yield "tokens of a request", lambda outcome: count(outcome.max_model_len_tokens)
    yield "requests at a time", lambda outcome: requests(outcome.max_concurrency_requests)


def _single_rows(document: FitDocument) -> Iterator[tuple[str, str]]:
    yield "longest context, tokens", count(document.longest_context_tokens)
    plan, refusal = document.plan, document.refusal
    if plan is not None:
        yield "blocks a request", count(plan.blocks_per_request)
        if len(plan.workers) == 1:
            yield "bytes a block", count(plan.workers[0].bytes_per_block)
            yield "GiB a request", gib(plan.workers[0].request_need_bytes)
        printed = document.engine.token_line == "by_blocks"
        label = "tokens, as its log says" if printed else "tokens, as releases to 0.20.0 print"
        yield label, count(plan.kv_cache_size_tokens_by_blocks)
        if plan.kv_tp_replicas > 1:
            yield "TP ranks with the same content", count(plan.kv_tp_replicas)
        yield "layout", plan.layout
    if refusal is not None and refusal.needed_bytes is not None:
        yield "GiB needed by one request", gib(refusal.needed_bytes)
        available = refusal.available_bytes
        yield "GiB available to it", UNKNOWN if available is None else gib(available)
