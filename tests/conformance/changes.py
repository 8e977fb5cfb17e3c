"""Figures of one release that are not those of the kept one, by architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.compare import differences
from tests.conformance.model_cases import normal_refusal
from tests.conformance.run import Case, kind_of

# What identifies a case, or was never measured.
_NO_FIGURES = frozenset({"name", "source", "vllm", "release", "weights_after_processing"})
_LOGS = frozenset({"log", "warnings", "config_log"})
# A field that one release lacks and that says nothing in the other.
_SAYS_NOTHING = re.compile(r": expected (None|False|'<absent>'), got (None|False|'<absent>')$")
# Below these stand names, not keys.
_NAMED = re.compile(
    r"^((?:backends|kv_shared_layers|weights_by_dtype)\b|.*kv_cache_specs\b).*?(\w+)$"
)


@dataclass(frozen=True)
class Changed:
    """One case: its changed figures, one line each, or why the engine gave no answer."""

    case: str
    architecture: str
    lines: tuple[str, ...] = ()
    unanswered: str | None = None


def changes(case: Case, answer: Mapping[str, Any]) -> Changed:
    """A kept case and the other release's answer to it."""
    kind = kind_of(case)
    architectures = case["config"].get("architectures") if kind == "models" else None
    architecture = architectures[0] if architectures else f"({kind})"
    if "unanswered" in answer:
        return Changed(case["name"], architecture, unanswered=answer["unanswered"])
    answered = answer["answer"]
    if ("refused" in case) != ("refused" in answered):
        return Changed(case["name"], architecture, lines=(_turned(case, answered),))
    lines = differences(_figures(case), _figures(answered))
    told = tuple(line for line in lines if not _SAYS_NOTHING.search(line))
    return Changed(case["name"], architecture, lines=told)


def _turned(case: Case, answered: Case) -> str:
    if "refused" in answered:
        return f"refused: was answered, now: {normal_refusal(answered['refused'])['message']}"
    return f"refused: now answered, was: {normal_refusal(case['refused'])['message']}"


def _figures(case: Case) -> dict[str, Any]:
    figures = {key: value for key, value in case.items() if key not in _NO_FIGURES}
    if "refused" in case:
        figures["refused"] = normal_refusal(case["refused"])
    if "results" in case:
        figures["results"] = [_result(result) for result in case["results"]]
    return _words(figures)


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    """A start-up without what only says where the engine's code stands."""
    shown = _words(result)
    if "error" in shown:
        shown["error"] = {key: result["error"][key] for key in ("type", "message")}
    return shown


def _words(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Log lines without the module that wrote them, which releases move."""
    return {
        key: [re.sub(r"^([A-Z]+) \S+: ", r"\1: ", line) for line in value]
        if key in _LOGS
        else value
        for key, value in figures.items()
    }


def key_of(line: str) -> str:
    """The figure that a line is about, whatever layer, worker or memory it was found at."""
    path = re.sub(r"\[\d+\]", "", line.partition(": ")[0])
    named = _NAMED.match(path)
    if named is None:
        return path
    return f"{named[1]}.{named[2]}" if named[1].endswith("kv_cache_specs") else named[1]


def summary(release: str, cases: Sequence[Changed]) -> str:
    """What changed, by architecture: how many cases, which figures, the first example of each."""
    changed = [case for case in cases if case.lines]
    unanswered = [case for case in cases if case.unanswered]
    text = [
        f"vLLM {release}: {len(cases)} cases asked, {len(cases) - len(changed) - len(unanswered)} "
        f"as kept, {len(changed)} changed, {len(unanswered)} without an answer"
    ]
    for architecture in sorted({case.architecture for case in changed}):
        text += [
            "",
            *_architecture(architecture, [c for c in cases if c.architecture == architecture]),
        ]
    if unanswered:
        text += ["", "Without an answer", *(f"  {c.case}: {c.unanswered}" for c in unanswered)]
    return "\n".join(text)


def _architecture(name: str, cases: Sequence[Changed]) -> list[str]:
    changed = [case for case in cases if case.lines]
    by_key: dict[str, list[str]] = {}
    for case in changed:
        first = {key_of(line): line for line in reversed(case.lines)}
        for key, line in first.items():
            by_key.setdefault(key, []).append(f"{case.case}: {line}")
    lines = [f"{name}: {len(changed)} of {len(cases)} cases changed"]
    for key, found in sorted(by_key.items(), key=lambda item: (-len(item[1]), item[0])):
        lines += [f"  {key}: {len(found)}", f"    {found[0]}"]
    return lines
