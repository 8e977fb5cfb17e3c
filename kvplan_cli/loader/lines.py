"""Where a key stands in a file: the line that an annotation points at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_text
from kvplan_cli.loader.yaml_text import key_lines


@dataclass(slots=True)
class Lines:
    """The lines of the files that were asked for, each read once."""

    known: dict[Path, Mapping[str, int]] = field(default_factory=dict)

    def of_key(self, path: Path, key: str) -> int | None:
        """The line of a dotted key path, else of the nearest key around it; None without one."""
        if path not in self.known:
            try:
                self.known[path] = key_lines(read_text(path))
            except InputError:
                self.known[path] = {}
        lines = self.known[path]
        while key:
            if key in lines:
                return lines[key]
            key = key.rpartition(".")[0]
        return None

    def of_problem(self, problem: Problem, paths: Sequence[Path]) -> tuple[Path, int | None] | None:
        """The file that a problem is about, of these, and the line; None where it names none."""
        for path in paths:
            before, named, key = problem.where.partition(place(path))
            if named and not before and (not key or key.startswith(": ")):
                dotted = key.removeprefix(": ").replace(": ", ".").partition("[")[0]
                return path, problem.line or self.of_key(path, dotted)
        return None
