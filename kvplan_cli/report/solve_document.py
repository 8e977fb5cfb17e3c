"""The JSON contract of ``kvplan solve``."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from kvplan_cli import __version__
from kvplan_cli.report.build import notice_documents, outcome_document
from kvplan_cli.report.document import (
    SCHEMA_VERSION,
    InputDocument,
    ModelDocument,
    NoticeDocument,
    OutcomeDocument,
)
from kvplan_cli.report.json_form import dumps
from kvplan_cli.results_solve import Binding, GroupCost, Quantity, SolveResult, Tried


class RequestsDocument(NamedTuple):
    """Equal requests of a mix."""

    tokens: Annotated[int, "Of one, prompt and answer together."]
    number: Annotated[int, "How many run at a time."]


class NeedsDocument(NamedTuple):
    """What must hold beside one request of max_model_len."""

    concurrency_requests: Annotated[float | None, "Requests of max_model_len at a time."]
    requests: Annotated[tuple[RequestsDocument, ...], "A mix that runs at a time."]


class BindingDocument(NamedTuple):
    """What keeps the answer from being better, or from being at all."""

    shortage: Annotated[
        Literal[
            "kv_cache_memory",
            "concurrency",
            "requests",
            "max_num_seqs",
            "max_model_len",
            "engine",
            "unplannable",
            "limit",
        ],
        "What is short; limit: the range of the quantity ends.",
    ]
    message: Annotated[str, "The same in words."]
    at_value: Annotated[str | None, "The next value, which lacks it; null at an end."]


class TriedDocument(NamedTuple):
    """One value of an enumeration."""

    value: Annotated[str, "As typed."]
    holds: Annotated[bool, "Whether the needs hold with it."]
    binding: Annotated[BindingDocument | None, "What it lacks."]
    max_concurrency_requests: Annotated[float | None, "Requests of max_model_len at a time."]


class GroupCostDocument(NamedTuple):
    """What one request holds in one group."""

    request_tokens: Annotated[int, "Length of the request."]
    requests: Annotated[int, "How many of them are needed."]
    group: Annotated[int, "Index from 0."]
    kind: Annotated[str, "The engine's spec class of the group."]
    num_layers: Annotated[int, "Layers of the whole model in it."]
    blocks: Annotated[int, "Blocks of one request."]
    bytes_all_workers: Annotated[int, "The same in bytes, over all stages."]
    fixed_bytes_all_workers: Annotated[int, "Of these, what does not grow with the length."]
    bytes_per_token_all_workers: Annotated[float, "What a further token costs."]


class SolveDocument(NamedTuple):
    """The whole answer of ``kvplan solve``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["solve"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    engine_release: Annotated[str, "The vLLM release whose rules the plan follows."]
    model: Annotated[ModelDocument, "What was planned."]
    inputs: Annotated[tuple[InputDocument, ...], "What was given, and where it came from."]
    quantity: Annotated[str, "What was solved for, as --for takes it."]
    needs: Annotated[NeedsDocument, "What had to hold."]
    value: Annotated[int | float | str | None, "The answer; bytes for memory; null: there is none."]
    text: Annotated[str | None, "The answer as typed behind the flag."]
    step: Annotated[str | None, "The grid it was rounded on, to the safe side."]
    decided_on: Annotated[
        Literal["given", "low", "likely", "high"], "The memory: given, or this end of its estimate."
    ]
    method: Annotated[Literal["search", "enumeration", "plan"], "How it was found."]
    method_reason: Annotated[str, "Why so."]
    binding: Annotated[BindingDocument, "Why the answer is no better."]
    outcome: Annotated[OutcomeDocument | None, "Planned with the answer, else at the far end."]
    request_costs: Annotated[
        tuple[GroupCostDocument, ...], "Of one request of each length, by group."
    ]
    tried: Annotated[tuple[TriedDocument, ...], "The values of an enumeration, in order."]
    exit_code: Annotated[int, "The process's exit code."]
    notices: Annotated[tuple[NoticeDocument, ...], "Warnings and notes."]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)


_FRACTIONS = (Quantity.GPU_MEMORY_UTILIZATION, Quantity.CONCURRENCY)


def solve_document(result: SolveResult) -> SolveDocument:
    """The contract's form of ``result``."""
    outcome = result.outcome
    return SolveDocument(
        schema_version=SCHEMA_VERSION,
        command="solve",
        kvplan_version=__version__,
        engine_release=result.engine_release,
        model=ModelDocument(
            name=result.model, origin=result.model_origin, architecture=result.architecture
        ),
        inputs=tuple(
            InputDocument(key=origin.key, value=origin.value, origin=origin.source)
            for origin in result.origins
        ),
        quantity=result.quantity.value,
        needs=_needs(result),
        value=_value(result),
        text=result.value,
        step=result.step,
        decided_on=result.on.value if result.estimated else "given",
        method=result.method.way.value,
        method_reason=result.method.reason,
        binding=_binding(result.binding),
        outcome=None if outcome is None else outcome_document(outcome),
        request_costs=_costs(result.costs),
        tried=tuple(_tried(each) for each in result.tried),
        exit_code=int(result.exit_code),
        notices=() if outcome is None else notice_documents(result.notices, outcome),
    )


def _needs(result: SolveResult) -> NeedsDocument:
    concurrency = result.needs.concurrency
    return NeedsDocument(
        concurrency_requests=None if concurrency is None else float(concurrency),
        requests=tuple(
            RequestsDocument(tokens=each.tokens, number=each.count)
            for each in result.needs.requests
        ),
    )


def _value(result: SolveResult) -> int | float | str | None:
    text = result.value
    if text is None or result.quantity is Quantity.KV_CACHE_DTYPE:
        return text
    return float(text) if result.quantity in _FRACTIONS else int(text)


def _binding(binding: Binding) -> BindingDocument:
    return BindingDocument(
        shortage=binding.shortage.value, message=binding.message, at_value=binding.at
    )


def _tried(tried: Tried) -> TriedDocument:
    return TriedDocument(
        value=tried.value,
        holds=tried.binding is None,
        binding=None if tried.binding is None else _binding(tried.binding),
        max_concurrency_requests=tried.max_concurrency,
    )


def _costs(costs: Sequence[GroupCost]) -> tuple[GroupCostDocument, ...]:
    return tuple(
        GroupCostDocument(
            request_tokens=cost.tokens,
            requests=cost.count,
            group=cost.group,
            kind=cost.kind,
            num_layers=cost.num_layers,
            blocks=cost.blocks,
            bytes_all_workers=cost.bytes_all_workers,
            fixed_bytes_all_workers=cost.fixed_bytes,
            bytes_per_token_all_workers=_number(cost.bytes_per_token),
        )
        for cost in costs
    )


def _number(value: Fraction) -> float:
    return float(value)
