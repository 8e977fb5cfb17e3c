"""What a user should know of a log that a plan was made from."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules, engine_rules
from kvplan_cli.errors import InputError
from kvplan_cli.loader.told import Told
from kvplan_cli.logs.available import available_memory
from kvplan_cli.logs.releases import release_of
from kvplan_cli.results import Notice, NoticeKind

OLDEST_FOLLOWED = "0.10.0"


def told_rules(release: str | None) -> EngineRules:
    """The rules for a release as a log prints it: builds between releases follow the one before.

    The newest rules where none is told; the oldest known ones for what is older.
    """
    numbers = release_of(release)
    if numbers is None:
        return NEWEST_RULES
    try:
        return engine_rules(".".join(str(part) for part in numbers))
    except InputError:
        older = numbers < (0, 10, 0)
        return engine_rules(OLDEST_FOLLOWED) if older else NEWEST_RULES


def told_notices(told: Told, rules: EngineRules) -> tuple[Notice, ...]:
    """rules: those that the plan follows."""
    return tuple(_notices(told, rules))


def _notices(told: Told, rules: EngineRules) -> Iterator[Notice]:
    name, measured = told.measured.origin, told.measured
    if measured.release is None:
        yield Notice(
            kind=NoticeKind.NOTE,
            code="release_not_told",
            message=f"{name} does not tell its release: the plan follows vLLM {rules.release}; "
            "--engine-version names another.",
        )
    elif release_of(measured.release) != release_of(rules.release):
        yield Notice(
            kind=NoticeKind.WARNING,
            code="other_release",
            message=f"{name} is of vLLM {measured.release}; the plan follows vLLM {rules.release}.",
        )
    if told.log is None:
        return
    if told.log.log.starts > 1:
        yield Notice(
            kind=NoticeKind.NOTE,
            code="several_starts",
            message=f"{name} holds {told.log.log.starts} starts: the last one counts.",
        )
    if not measured.has_available:
        yield Notice(
            kind=NoticeKind.NOTE,
            code="no_available_memory",
            message=f"{name} ends before the engine tells the memory for its cache: the rest is "
            "an estimate.",
        )
    for process in told.log.log.processes:
        available = available_memory(told.log.log, process)
        if available is not None and available.disagrees is not None:
            yield Notice(
                kind=NoticeKind.WARNING,
                code="log_disagrees",
                message=f"{name}:{available.disagrees} fits no memory that the other lines "
                "leave possible; it was left out.",
            )
