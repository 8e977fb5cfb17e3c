"""From a log's text to its starts."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Any, Final

from kvplan_cli.logs.lines import Line, Process, lines_of
from kvplan_cli.logs.literals import dict_items, keyword_items
from kvplan_cli.logs.printed import (
    Figure,
    Printed,
    printed_count,
    printed_gib,
    printed_hundredths,
)
from kvplan_cli.logs.startup import ProcessFigures, Setting, StartupLog
from kvplan_cli.logs.wordings import STARTS, WORDINGS, figure_of

PROFILING_ENABLED: Final = "CUDA graph memory profiling is enabled"
PROFILING_DISABLED: Final = "CUDA graph memory profiling is disabled"
_ANCHORS: Final = (
    *dict.fromkeys(wording.anchor for wording in WORDINGS),
    PROFILING_ENABLED,
    PROFILING_DISABLED,
)
# Of several that one process prints, the smallest decides: V1 prints a line for each worker.
_SMALLEST: Final = frozenset(
    {Figure.AVAILABLE, Figure.IN_USE, Figure.TOKENS, Figure.CONCURRENCY, Figure.GPU_BLOCKS}
)
_READERS: Final = {
    "gib": printed_gib,
    "bytes": printed_count,
    "count": printed_count,
    "hundredths": printed_hundredths,
}
# The engine's config line has more than a hundred keys, most of them nested.
_RESOLVED_KEYS: Final = frozenset(
    {
        "model",
        "revision",
        "dtype",
        "max_seq_len",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "decode_context_parallel_size",
        "quantization",
        "enforce_eager",
        "kv_cache_dtype",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "chunked_prefill_enabled",
    }
)


def read_log(text: str) -> StartupLog:
    """The last start in ``text`` that printed figures of memory; its last start otherwise."""
    starts = [_Start()]
    for line in lines_of(text, _ANCHORS):
        for wording in WORDINGS:
            if wording.anchor not in line.text:
                continue
            for found in wording.pattern.finditer(line.text):
                if wording in STARTS and starts[-1].is_over(found.groupdict()):
                    starts.append(_Start())
                starts[-1].take(found.groupdict(), line)
        if PROFILING_ENABLED in line.text or PROFILING_DISABLED in line.text:
            starts[-1].profiles_graphs = PROFILING_ENABLED in line.text
    told = [start for start in starts if start.has_figures]
    return (told or starts)[-1].finished(len(told) or 1)


@dataclasses.dataclass(slots=True)
class _Start:
    """One start while it is read."""

    release: Setting | None = None
    given: dict[str, Setting] = field(default_factory=dict)
    resolved: dict[str, Setting] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    figures: dict[str, dict[Figure, Printed]] = field(default_factory=dict)
    profiles_graphs: bool | None = None

    @property
    def has_figures(self) -> bool:
        memory = {Figure.WEIGHTS, Figure.AVAILABLE, Figure.TOKENS, Figure.GPU_BLOCKS, Figure.NEEDED}
        return any(memory & each.keys() for each in self.figures.values())

    def is_over(self, groups: dict[str, str | None]) -> bool:
        """Whether a line of a start begins another: once this one told its figures.

        Other engines of one start (data parallel) print their config late, but no flags.
        """
        begins = "arguments" in groups or "namespace" in groups
        if not self.given and not begins:
            begins = "engine" in groups
        return begins and self.has_figures

    def take(self, groups: dict[str, str | None], line: Line) -> None:
        for group, text in groups.items():
            if text is not None:
                self._take(group, text, line)

    def _take(self, group: str, text: str, line: Line) -> None:
        match group:
            case "release":
                self.release = self.release or Setting(value=text, line=line.number)
            case "arguments":
                self._settings(self.given, dict_items(_whole(line, text)), line.number)
            case "namespace":
                self._settings(self.given, keyword_items(_whole(line, text), ")"), line.number)
            case "engine":
                items = keyword_items(_whole(line, text), "\n")
                kept = {key: value for key, value in items.items() if key in _RESOLVED_KEYS}
                self._settings(self.resolved, kept, line.number)
            case "utilization_share":
                kept = {"gpu_memory_utilization": float(text)}
                self._settings(self.resolved, kept, line.number)
            case _:
                self._figure(group, text, line)

    def _settings(self, known: dict[str, Setting], items: dict[str, Any], line: int) -> None:
        for key, value in items.items():
            known.setdefault(key, Setting(value=value, line=line))

    def _figure(self, group: str, text: str, line: Line) -> None:
        figure, kind = figure_of(group)
        printed = _READERS[kind](text, line.number)
        key = line.process.key
        known = self.processes.get(key)
        if known is None or known.pipeline_rank is None:
            self.processes[key] = line.process
        figures = self.figures.setdefault(key, {})
        before = figures.get(figure)
        figures[figure] = printed if before is None else _of_two(figure, before, printed)

    def finished(self, starts: int) -> StartupLog:
        return StartupLog(
            release=self.release,
            given=self.given,
            resolved=self.resolved,
            processes=tuple(
                ProcessFigures(process=self.processes[key], figures=figures)
                for key, figures in self.figures.items()
            ),
            starts=starts,
            profiles_graphs=self.profiles_graphs,
        )


def _whole(line: Line, text: str) -> str:
    """What a pattern caught, with the line's end where it has one: ``.`` stops before it."""
    return f"{text}\n" if line.text.endswith("\n") else text


def _of_two(figure: Figure, before: Printed, later: Printed) -> Printed:
    if figure in _SMALLEST:
        return min(before, later, key=lambda printed: printed.high)
    return before.narrowed(later) or later
