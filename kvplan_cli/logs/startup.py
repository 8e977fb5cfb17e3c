"""One start of the engine, as its log tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kvplan_cli.logs.lines import NOBODY, Process
from kvplan_cli.logs.printed import Figure, Printed
from kvplan_cli.logs.releases import Release, release_of
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """What one process printed. Processes that are not told apart are one."""

    process: Process = NOBODY
    figures: Mapping[Figure, Printed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that the log prints, and the line it stands in."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupLog:
    """What one start printed.

    release: as printed. given: flags by the engine's Python names, as the user gave them.
    resolved: settings by the names of the engine's config line. processes: figures by who
    printed them, in order of appearance. starts: how many starts the log holds; this is the
    last that printed any figure of memory.
    """

    release: Setting | None = None
    given: Mapping[str, Setting] = field(default_factory=dict)
    resolved: Mapping[str, Setting] = field(default_factory=dict)
    processes: tuple[ProcessFigures, ...] = ()
    starts: int = 1
    profiles_graphs: bool | None = None

    @property
    def release_numbers(self) -> Release | None:
        """Major, minor, patch; None where the log does not tell them."""
        return None if self.release is None else release_of(self.release.value)

    def smallest(self, figure: Figure) -> Printed | None:
        """The smallest of what the processes printed."""
        found = self.all(figure)
        return min(found, key=lambda printed: printed.high) if found else None

    def all(self, figure: Figure) -> tuple[Printed, ...]:
        """What each process printed, in order."""
        return tuple(
            process.figures[figure] for process in self.processes if figure in process.figures
        )
