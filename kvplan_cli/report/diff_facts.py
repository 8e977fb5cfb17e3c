"""The figures of a fit that two answers are compared by, most important first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from kvplan_cli.formulas.kinds import SPEC_WORDS
from kvplan_cli.report.document import Scalar, SettingsDocument
from kvplan_cli.report.words import LINE_NAMES
from kvplan_cli.units import spans
from kvplan_cli.values import dataclass

Part = Literal["verdict", "capacity", "memory", "groups", "settings"]
Effect = Literal["more", "less"]
Unit = Literal["requests", "tokens", "blocks", "bytes", "number", "text"]
Document = Mapping[str, Any]

_ENDS: Final = ("low", "likely", "high")
_ANSWERS: Final = {"fits": "fits", "does_not_fit": "does not fit", "depends": "depends"}
_LIMITED: Final[Mapping[str, tuple[str, Unit]]] = {
    "max_concurrency_requests": ("requests at a time", "requests"),
    "kv_cache_size_tokens": ("tokens", "tokens"),
    "num_blocks": ("blocks", "blocks"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One figure. key: a stable name. better: whether more of it is better, or less, or neither.

    unit: requests, tokens, blocks, bytes, number or text. end: which end of the memory it is of,
    None where it has no range.
    """

    part: Part
    key: str
    label: str
    value: Scalar
    unit: Unit = "text"
    better: Effect | None = None
    end: str | None = None


def facts(document: Document) -> Iterator[Fact]:
    """What an answer says, but its groups and notices."""
    yield from _verdict(document)
    yield from _capacity(document)
    yield from _memory(document)
    yield from _identity(document)
    yield from _settings(document)


def at(document: Document, path: str) -> Any:
    """The value at a dotted path; None where a part of the way is missing or null."""
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _verdict(document: Document) -> Iterator[Fact]:
    answer = at(document, "verdict.answer")
    shown = _ANSWERS.get(answer, answer)
    yield Fact(part="verdict", key="verdict.answer", label="answer", value=shown)
    kind = at(document, "refusal.kind")
    refused = None if kind is None else str(kind).replace("_", " ")
    yield Fact(part="verdict", key="refusal.kind", label="why not", value=refused)
    message = at(document, "refusal.message")
    if at(document, "refusal.mendable_by_memory") is False:
        yield Fact(part="verdict", key="refusal.message", label="vLLM says", value=message)


def _capacity(document: Document) -> Iterator[Fact]:
    for key, label in (
        ("longest_context_tokens", "longest context"),
        ("plan.max_model_len_tokens", "max_model_len"),
    ):
        value = at(document, key)
        yield Fact(part="capacity", key=key, label=label, value=value, unit="tokens", better="more")
    outcomes = [at(document, f"verdict.at_{end}") or {} for end in _ENDS]
    for name, (label, unit) in _LIMITED.items():
        values = [outcome.get(name) for outcome in outcomes]
        yield from _over_ends("capacity", f"verdict.{name}", label, values, unit)
    per_request = at(document, "plan.blocks_per_request")
    yield Fact(
        part="capacity",
        key="plan.blocks_per_request",
        label="blocks a request",
        value=per_request,
        unit="blocks",
        better="less",
    )


def _over_ends(
    part: Part, key: str, label: str, values: Sequence[Any], unit: Unit
) -> Iterator[Fact]:
    for end, value in zip(_ENDS, values, strict=True):
        yield Fact(part=part, key=key, label=label, value=value, unit=unit, better="more", end=end)


def _memory(document: Document) -> Iterator[Fact]:
    workers = at(document, "available_bytes_per_worker") or []
    least = [min((worker.get(end) for worker in workers), default=None) for end in _ENDS]
    yield from _over_ends("memory", "available_bytes", "available", least, "bytes")
    budgets = at(document, "budgets") or []
    for budget in budgets:
        stage = f", stage {budget.get('stage')}" if len(budgets) > 1 else ""
        for line in budget.get("lines") or []:
            name = line.get("name")
            yield Fact(
                part="memory",
                key=f"budgets.{budget.get('stage')}.{name}",
                label=f"{LINE_NAMES.get(name, name)}{stage}",
                value=at(line, "bytes_per_rank.likely"),
                unit="bytes",
                better="less",
            )
    yield Fact(
        part="memory",
        key="plan.bytes_per_block_all_workers",
        label="a block, all stages",
        value=at(document, "plan.bytes_per_block_all_workers"),
        unit="number",
    )


def _identity(document: Document) -> Iterator[Fact]:
    for key, label in (
        ("model.name", "model"),
        ("model.architecture", "architecture"),
        ("engine.release", "vLLM"),
        ("gpu.name", "card"),
    ):
        yield Fact(part="settings", key=key, label=label, value=at(document, key))
    key = "gpu.total_memory_bytes"
    size = at(document, key)
    yield Fact(part="settings", key=key, label="memory of the card", value=size, unit="bytes")


# Keys that carry a unit which the engine's own name does not have.
_WITH_UNIT: Final = ("max_model_len_tokens", "block_size_tokens", "mamba_block_size_tokens")


def _settings(document: Document) -> Iterator[Fact]:
    settings = at(document, "settings") or {}
    for name in dict.fromkeys([*SettingsDocument._fields, *settings]):
        if name in settings:
            label = name.removesuffix("_tokens") if name in _WITH_UNIT else name
            value = settings[name]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            unit: Unit = "number" if number else "text"
            yield Fact(part="settings", key=f"settings.{name}", label=label, value=value, unit=unit)
    for given in at(document, "inputs") or []:
        key = str(given.get("key"))
        if key in settings or f"{key}_tokens" in settings or key in ("gpu", "engine_version"):
            continue
        size = key.endswith("_bytes") and isinstance(given.get("value"), int)
        yield Fact(
            part="settings",
            key=f"inputs.{key}",
            label=key.removesuffix("_bytes"),
            value=given.get("value"),
            unit="bytes" if size else "text",
        )


def group_facts(
    first: Sequence[Document], second: Sequence[Document]
) -> Iterator[tuple[Fact, Scalar, Scalar]]:
    """What differs between the groups: what it is, and both values.

    Groups of the same layers are compared; runs of them that differ alike are one. The others
    stand on their side only.
    """
    if len(first) != len(second):
        yield _of_groups("groups", "groups", "number"), len(first), len(second)
    by_layers = {_layers(group): group for group in first}
    alike: dict[tuple[str, Scalar, Scalar], list[int]] = {}
    for group in second:
        before = by_layers.get(_layers(group), group)
        for name in _GROUP_KEYS:
            if before.get(name) != group.get(name):
                differs = (name, before.get(name), group.get(name))
                alike.setdefault(differs, []).append(int(group.get("group") or 0))
    for (name, a, b), groups in alike.items():
        words, unit = _GROUP_KEYS[name]
        shown = spans(groups)
        label = f"group{'s' * (len(groups) > 1)} {shown}: {words}"
        yield _of_groups(f"groups.{shown}.{name}", label, unit), a, b
    met = by_layers.keys() & {_layers(group) for group in second}
    for group in (each for each in first if _layers(each) not in met):
        yield _of_groups(f"groups.{group.get('group')}.a", "group", "text"), _told(group), None
    for group in (each for each in second if _layers(each) not in met):
        yield _of_groups(f"groups.{group.get('group')}.b", "group", "text"), None, _told(group)


def _of_groups(key: str, label: str, unit: Unit) -> Fact:
    return Fact(part="groups", key=key, label=label, value=None, unit=unit)


def _layers(group: Document) -> tuple[str, ...]:
    return tuple(group.get("layer_names") or ())


# A group's key to its words and unit.
_GROUP_KEYS: Final[Mapping[str, tuple[str, Unit]]] = {
    "kind": ("kind", "text"),
    "block_size_tokens": ("block, tokens", "tokens"),
    "page_size_bytes": ("page, bytes", "number"),
    "blocks_per_request": ("blocks a request", "blocks"),
}


def _told(group: Document) -> str:
    kind = str(group.get("kind"))
    layers, block = group.get("num_layers"), group.get("block_size_tokens")
    return (
        f"{layers} {SPEC_WORDS.get(kind, kind)}, block {block}, page {group.get('page_size_bytes')}"
    )
