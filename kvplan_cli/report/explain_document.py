"""The JSON contract of ``kvplan explain``: that of ``fit``, and why."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from kvplan_cli import __version__
from kvplan_cli.formulas.arithmetic import values_of
from kvplan_cli.formulas.formula import Formula
from kvplan_cli.formulas.maps import MemoryMap
from kvplan_cli.formulas.waste import Wasted
from kvplan_cli.report.build import fit_document
from kvplan_cli.report.document import SCHEMA_VERSION, FitDocument
from kvplan_cli.report.json_form import dumps
from kvplan_cli.results_explain import Change, ExplainResult, Standing


class FormulaValueDocument(NamedTuple):
    """One number of a formula."""

    name: Annotated[str, "As the formula names it."]
    value: Annotated[int | float, "The number."]


class FormulaBoundDocument(NamedTuple):
    """What a figure is held against."""

    relation: Annotated[Literal["<=", ">"], "How the figure stands to it."]
    name: Annotated[str, "What it is."]
    value: Annotated[int | float, "The number."]


class FormulaDocument(NamedTuple):
    """One figure, worked out."""

    name: Annotated[str, "The figure."]
    of: Annotated[str, "The layers, groups, worker or length it speaks of; empty for all."]
    formula: Annotated[str, "With names."]
    with_values: Annotated[str, "With numbers, the result, and what it is held against."]
    values: Annotated[tuple[FormulaValueDocument, ...], "The numbers by name."]
    result: Annotated[int | float, "What it comes to: the plan's figure."]
    unit: Annotated[str, "bytes, blocks, tokens, requests, layers, groups, heads or batches."]
    bound: Annotated[FormulaBoundDocument | None, "What decides whether it fits."]
    source: Annotated[str, "The engine's file and function, or where the number was given."]
    note: Annotated[str, "What the names do not say; may be empty."]


class MapPartDocument(NamedTuple):
    """A run of bytes in a map."""

    name: Annotated[str, "What stands there."]
    size_bytes: Annotated[int, "Its bytes."]
    offset_bytes: Annotated[int, "Where it begins."]
    wasted: Annotated[bool, "True where no request reads it."]


class MapDocument(NamedTuple):
    """Where memory goes, part by part."""

    map_of: Annotated[
        Literal["device", "budget", "request", "block"],
        "A card, memory for the cache of a rank, one request over all stages, one block.",
    ]
    of: Annotated[str, "The workers, groups or length; empty for all."]
    total_bytes: Annotated[int, "The whole."]
    parts: Annotated[tuple[MapPartDocument, ...], "In order; those of no bytes left out."]


class WasteDocument(NamedTuple):
    """Bytes that no request reads; each byte is counted once."""

    kind: Annotated[
        Literal[
            "page_padding",
            "padding_layers",
            "block_rounding",
            "in_flight_reserve",
            "state_copies",
            "windows_kept_like_full",
            "replicas",
            "unused_on_other_workers",
            "left_over",
            "null_block",
        ],
        "Why.",
    ]
    size_bytes: Annotated[int, "Bytes, over a rank of each stage."]
    percent: Annotated[float, "Share of the whole."]
    whole: Annotated[Literal["request", "workers"], "What the share is taken of."]
    whole_bytes: Annotated[int, "Its bytes: one request of max_model_len, or all available."]
    worked_out: Annotated[FormulaDocument, "The bytes as a formula."]


class StandingDocument(NamedTuple):
    """What a set of flags holds, at the end of the memory that decides."""

    fits: Annotated[bool, "Whether the engine would start."]
    max_model_len_tokens: Annotated[int | None, "Length of a request."]
    max_concurrency_requests: Annotated[float | None, "Requests of that length at a time."]
    kv_cache_size_tokens: Annotated[int | None, "Token capacity, newer form."]
    longest_context_tokens: Annotated[int | None, "Longest request that fits."]
    gpus: Annotated[int, "Cards of all ranks."]
    available_bytes: Annotated[int, "Of the rank that has least."]


class ChangeDocument(NamedTuple):
    """One change of flags, planned."""

    flag: Annotated[str, "What is changed."]
    typed: Annotated[str, "As typed."]
    effect: Annotated[
        Literal["better", "no_better", "unplanned"],
        "More requests or a longer context; not so; or vLLM refuses it here.",
    ]
    together: Annotated[bool, "True for several of the others at once."]
    cost: Annotated[str, "What it takes, in words."]
    price: Annotated[
        Literal["speed", "room", "other"],
        "Speed alone; a margin or requests beside each other; answers, features or cards.",
    ]
    standing: Annotated[StandingDocument | None, "What it holds; null where it is not planned."]
    reason: Annotated[str | None, "Why it is not planned."]


class ExplainDocument(NamedTuple):
    """The whole answer of ``kvplan explain``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["explain"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    fit: Annotated[FitDocument, "What kvplan fit says of the same call."]
    figures: Annotated[
        tuple[FormulaDocument, ...], "From the card to the longest context, in order."
    ]
    maps: Annotated[tuple[MapDocument, ...], "Where memory goes."]
    waste: Annotated[tuple[WasteDocument, ...], "The largest share first."]
    now: Annotated[StandingDocument, "What the flags as given hold."]
    changes: Annotated[
        tuple[ChangeDocument, ...], "Best first, more cards behind; then what does not help."
    ]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)


def explain_document(result: ExplainResult) -> ExplainDocument:
    """The contract's form of ``result``."""
    return ExplainDocument(
        schema_version=SCHEMA_VERSION,
        command="explain",
        kvplan_version=__version__,
        fit=fit_document(result.fit),
        figures=tuple(_formula(formula) for formula in result.formulas),
        maps=tuple(_map(each) for each in result.maps),
        waste=tuple(_waste(wasted) for wasted in result.wastes),
        now=_standing(result.now),
        changes=_changes(result.changes),
    )


def _formula(formula: Formula) -> FormulaDocument:
    bound = formula.bound
    return FormulaDocument(
        name=formula.name,
        of=formula.of,
        formula=formula.names,
        with_values=formula.figures,
        values=tuple(
            FormulaValueDocument(name=name, value=value)
            for name, value in values_of(formula.expression)
        ),
        result=formula.result,
        unit=formula.unit.value,
        bound=None
        if bound is None
        else FormulaBoundDocument(
            relation=bound.relation.value, name=bound.name, value=bound.number
        ),
        source=formula.source,
        note=formula.note,
    )


def _map(memory: MemoryMap) -> MapDocument:
    return MapDocument(
        map_of=memory.map_of.value,
        of=memory.of,
        total_bytes=memory.total_bytes,
        parts=tuple(
            MapPartDocument(
                name=part.name,
                size_bytes=part.num_bytes,
                offset_bytes=part.offset_bytes,
                wasted=part.wasted,
            )
            for part in memory.parts
        ),
    )


def _waste(wasted: Wasted) -> WasteDocument:
    return WasteDocument(
        kind=wasted.waste.value,
        size_bytes=wasted.num_bytes,
        percent=wasted.percent,
        whole="request" if wasted.of_a_request else "workers",
        whole_bytes=wasted.of_bytes,
        worked_out=_formula(wasted.formula),
    )


def _standing(standing: Standing) -> StandingDocument:
    return StandingDocument(
        fits=standing.fits,
        max_model_len_tokens=standing.max_model_len,
        max_concurrency_requests=standing.max_concurrency,
        kv_cache_size_tokens=standing.tokens,
        longest_context_tokens=standing.longest_context,
        gpus=standing.gpus,
        available_bytes=standing.available_bytes,
    )


def _changes(changes: Sequence[Change]) -> tuple[ChangeDocument, ...]:
    return tuple(
        ChangeDocument(
            flag=change.flag,
            typed=change.typed,
            effect=change.effect.value,
            together=change.together,
            cost=change.cost,
            price=change.price.value,
            standing=None if change.standing is None else _standing(change.standing),
            reason=change.reason,
        )
        for change in changes
    )
