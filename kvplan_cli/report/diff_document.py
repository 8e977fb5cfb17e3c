"""The JSON contract of ``kvplan diff``: what changed, most important first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

from kvplan_cli import __version__
from kvplan_cli.errors import ExitCode
from kvplan_cli.report.diff_facts import Fact, at, facts, group_facts
from kvplan_cli.report.document import SCHEMA_VERSION, NoticeDocument, Scalar
from kvplan_cli.report.json_form import dumps
from kvplan_cli.results_diff import Compared, DiffResult


class SideDocument(NamedTuple):
    """One of the two answers."""

    name: Annotated[str, "As given."]
    saved: Annotated[bool, "Read from a file, not planned now."]
    kvplan_version: Annotated[str | None, "The program that made it."]
    model: Annotated[str | None, "The model."]
    engine_release: Annotated[str | None, "The vLLM release whose rules it follows."]
    gpu: Annotated[str | None, "The card whose rules decide."]
    answer: Annotated[str | None, "fits, does_not_fit or depends."]
    exit_code: Annotated[int | None, "What kvplan fit ends with."]


class ChangeDocument(NamedTuple):
    """One thing that differs."""

    part: Annotated[
        Literal["verdict", "capacity", "memory", "groups", "settings"], "What it is about."
    ]
    key: Annotated[str, "A stable name; where it can, the key of kvplan fit --json."]
    end: Annotated[str | None, "The end of the memory estimate; null where all are alike."]
    label: Annotated[str, "In words."]
    unit: Annotated[
        Literal["requests", "tokens", "blocks", "bytes", "number", "text"],
        "What the values count.",
    ]
    a: Annotated[Scalar, "The first; null where it has none."]
    b: Annotated[Scalar, "The second; null where it has none."]
    change: Annotated[int | float | None, "The second less the first, of numbers."]
    change_ratio: Annotated[float | None, "The change as a part of the first."]
    effect: Annotated[
        Literal["better", "worse"] | None, "For the user, where that is plain; else null."
    ]


class DiffDocument(NamedTuple):
    """The whole answer of ``kvplan diff``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["diff"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    a: Annotated[SideDocument, "The first."]
    b: Annotated[SideDocument, "The second."]
    differs: Annotated[bool, "Whether anything does."]
    changes: Annotated[tuple[ChangeDocument, ...], "Most important first."]
    notices_gone: Annotated[tuple[NoticeDocument, ...], "Of the first only."]
    notices_new: Annotated[tuple[NoticeDocument, ...], "Of the second only."]
    exit_code: Annotated[int, "That of the second; with --exit-code 1 where they differ."]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)


def diff_document(result: DiffResult) -> DiffDocument:
    """The contract's form of ``result``."""
    a, b = result.a.document, result.b.document
    changes = (*_changes(a, b), *_group_changes(a, b))
    ordered = tuple(sorted(changes, key=lambda change: _PARTS.index(change.part)))
    gone, new = _notices_apart(a, b)
    differs = bool(ordered or gone or new)
    ending = at(b, "verdict.exit_code")
    code = ExitCode.FITS if ending is None else ExitCode(ending)
    if result.exit_code and differs and code is ExitCode.FITS:
        code = ExitCode.DOES_NOT_FIT
    return DiffDocument(
        schema_version=SCHEMA_VERSION,
        command="diff",
        kvplan_version=__version__,
        a=_side(result.a),
        b=_side(result.b),
        differs=differs,
        changes=ordered,
        notices_gone=gone,
        notices_new=new,
        exit_code=int(code),
    )


_PARTS = ("verdict", "capacity", "memory", "groups", "settings")


def _side(side: Compared) -> SideDocument:
    document = side.document
    return SideDocument(
        name=side.name,
        saved=side.saved,
        kvplan_version=at(document, "kvplan_version"),
        model=at(document, "model.name"),
        engine_release=at(document, "engine.release"),
        gpu=at(document, "gpu.name"),
        answer=at(document, "verdict.answer"),
        exit_code=at(document, "verdict.exit_code"),
    )


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[ChangeDocument]:
    first = {(fact.key, fact.end): fact for fact in facts(a)}
    second = {(fact.key, fact.end): fact for fact in facts(b)}
    # The figures of the first, and those that only the second has in their places.
    keys = _in_order(list(first), list(second))
    pairs = [(first.get(key), second.get(key)) for key in keys]
    for _, run in groupby(pairs, key=lambda pair: _either(pair).key):
        yield from _of_ends(list(run))


def _in_order(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """All of both, each in the order of its own list as far as the other allows."""
    merged = list(first)
    for index, key in enumerate(second):
        if key not in first:
            before = second[index - 1] if index else None
            merged.insert(merged.index(before) + 1 if before in merged else 0, key)
    return merged


def _either(pair: tuple[Fact | None, Fact | None]) -> Fact:
    fact = pair[0] or pair[1]
    assert fact is not None
    return fact


def _of_ends(pairs: Sequence[tuple[Fact | None, Fact | None]]) -> Iterator[ChangeDocument]:
    """What changed at each end of the memory; as one where all ends agree."""
    values = [(None if a is None else a.value, None if b is None else b.value) for a, b in pairs]
    alike = len(set(values)) == 1
    for pair, (a, b) in zip(pairs[:1] if alike else pairs, values, strict=False):
        if a != b:
            fact = _either(pair)
            yield _change(replace(fact, end=None) if alike else fact, a, b)


def _group_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[ChangeDocument]:
    for fact, before, after in group_facts(at(a, "groups") or [], at(b, "groups") or []):
        yield _change(fact, before, after)


def _change(fact: Fact, a: Scalar, b: Scalar) -> ChangeDocument:
    """What a fact says of both sides; its own value counts for nothing."""
    first, second = _number(a), _number(b)
    change = None if first is None or second is None else second - first
    return ChangeDocument(
        part=fact.part,
        key=fact.key,
        end=fact.end,
        label=fact.label,
        unit=fact.unit,
        a=a,
        b=b,
        change=change,
        change_ratio=change / abs(first) if change is not None and first else None,
        effect=_effect(fact, a, b),
    )


# From the worst answer to the best, as the facts say them.
_RANKS = ("does not fit", "depends", "fits")


def _effect(fact: Fact, a: Scalar, b: Scalar) -> Literal["better", "worse"] | None:
    """Whether the user gains. A figure that is there at one side only stands for a plan there."""
    if fact.key == "verdict.answer" and a in _RANKS and b in _RANKS:
        return "better" if _RANKS.index(str(b)) > _RANKS.index(str(a)) else "worse"
    if fact.better is None:
        return None
    first, second = _number(a), _number(b)
    if first is None or second is None:
        return "better" if first is None else "worse"
    return "better" if (second > first) == (fact.better == "more") else "worse"


def _number(value: Scalar) -> int | float | None:
    """The value, where it is a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]


# What a file demands is no part of its plan.
_OF_NO_PLAN = ("expectations_not_checked",)


def _notices_apart(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[tuple[NoticeDocument, ...], tuple[NoticeDocument, ...]]:
    first, second = (
        [
            NoticeDocument(kind=each["kind"], code=each["code"], message=each["message"])
            for each in at(side, "notices") or []
            if each["code"] not in _OF_NO_PLAN
        ]
        for side in (a, b)
    )
    gone = tuple(notice for notice in first if notice not in second)
    new = tuple(notice for notice in second if notice not in first)
    return gone, new
