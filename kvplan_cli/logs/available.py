"""Available memory of a rank from all that its lines say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvplan_cli.logs.printed import Figure, Printed
from kvplan_cli.logs.startup import ProcessFigures, StartupLog
from kvplan_cli.units import MIB
from kvplan_cli.values import dataclass

# What the engine leaves free when it suggests --kv-cache-memory.
# Source: vLLM 0.33.0 ``v1/worker/gpu_worker.py:compile_or_warm_up_model``.
SUGGESTION_RESERVE: Final = 150 * MIB
_ESTIMATE_APPLIES_FROM: Final = (0, 21, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableMemory:
    """Bytes for the cache on one rank.

    lines: the log's lines it was taken from, with what each gave. disagrees: a line that fits
    no value of the others; it was left out.
    """

    low: int
    high: int
    lines: tuple[tuple[int, str], ...]
    disagrees: int | None = None


def available_memory(log: StartupLog, rank: ProcessFigures) -> AvailableMemory | None:
    """What the rank's lines leave possible, all of them taken together; None without one."""
    known: Printed | None = None
    lines: list[tuple[int, str]] = []
    disagrees = None
    for what, printed in _readings(log, rank.figures):
        both = printed if known is None else known.narrowed(printed)
        if both is None:
            disagrees = printed.line
            continue
        if known is None or (both.low, both.high) != (known.low, known.high):
            lines.append((printed.line, what))
        known = both
    if known is None:
        return None
    return AvailableMemory(low=known.low, high=known.high, lines=tuple(lines), disagrees=disagrees)


def _readings(log: StartupLog, figures: Mapping[Figure, Printed]) -> Iterator[tuple[str, Printed]]:
    """Each line's say, the plainest first."""
    if Figure.AVAILABLE in figures:
        yield "available memory as printed", figures[Figure.AVAILABLE]
    if Figure.IN_USE in figures:
        yield "cache memory in use", figures[Figure.IN_USE]
    if Figure.RESERVED in figures:
        yield "memory pinned by kv_cache_memory_bytes", figures[Figure.RESERVED]
    suggested = _from_suggestion(log, figures)
    if suggested is not None:
        yield "suggested --kv-cache-memory + 150 MiB + graphs", suggested


def _from_suggestion(log: StartupLog, figures: Mapping[Figure, Printed]) -> Printed | None:
    """The exact form: the suggestion, its reserve, and the graphs that it leaves out.

    Releases that print weights and non-torch memory apart do not count the graph estimate
    as activation: there it comes off once more.
    """
    suggested, graphs = figures.get(Figure.FIT_REQUESTED), figures.get(Figure.GRAPHS)
    if suggested is None or graphs is None:
        return None
    low, high = (0, 0) if _is_eager(log) else (max(0, graphs.low), graphs.high)
    if Figure.CONSUMED not in figures:
        estimate = figures.get(Figure.GRAPHS_ESTIMATED)
        if estimate is not None:
            applies = _estimate_applies(log)
            if applies is None:
                return None
            low, high = (low - estimate.high, high - estimate.low) if applies else (low, high)
    base = suggested.low + SUGGESTION_RESERVE
    return Printed(text=suggested.text, low=base + low, high=base + high, line=suggested.line)


def _is_eager(log: StartupLog) -> bool:
    settings = log.resolved.get("enforce_eager") or log.given.get("enforce_eager")
    return settings is not None and settings.value is True


def _estimate_applies(log: StartupLog) -> bool | None:
    if log.profiles_graphs is not None:
        return log.profiles_graphs
    release = log.release_numbers
    return None if release is None else release >= _ESTIMATE_APPLIES_FROM
