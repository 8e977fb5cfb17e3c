"""Lines of a log without what terminals, containers and workers put around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvplan_cli.values import dataclass

# A line that is longer is read to here: the engine's longest lines are its own config.
LONGEST_LINE: Final = 1 << 16
_LONGEST_PREFIX: Final = 400

_BREAKS: Final = re.compile(r"\r\n|\n|\r")
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\))"
)
_PROCESS: Final = re.compile(
    r"\((?P<name>[A-Za-z][\w ]{0,60}?)(?: rank=(?P<rank>\d{1,5}))?,? "
    r"pid=(?P<pid>\d{1,9})[^)]{0,80}\)"
)
_PIPELINE_RANK: Final = re.compile(r"PP(\d{1,4})")
_TENSOR_RANK: Final = re.compile(r"TP(\d{1,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Who wrote a line. Ranks are None where the name does not tell them."""

    name: str = ""
    pid: str = ""
    pipeline_rank: int | None = None
    tensor_rank: int | None = None

    @property
    def key(self) -> str:
        """What stays the same for a process: its name grows once its rank is known."""
        return self.pid or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: its number from 1, its text with the line end where it has one, its writer."""

    number: int
    text: str
    process: Process


NOBODY: Final = Process()


def lines_of(text: str, anchors: tuple[str, ...]) -> Iterator[Line]:
    """The lines that hold one of ``anchors``, cleaned. A last line without an end keeps none.

    Progress bars draw over their line: the pieces between their returns share its number.
    """
    for number, raw in _raw_lines(text):
        clean = _ESCAPES.sub("", raw) if "\x1b" in raw else raw
        if any(anchor in clean for anchor in anchors):
            yield Line(number=number, text=clean, process=_process(clean))


def _raw_lines(text: str) -> Iterator[tuple[int, str]]:
    start, number = 0, 1
    for match in _BREAKS.finditer(text):
        yield number, _bounded(text, start, match.start(), "\n")
        start = match.end()
        number += match.group() != "\r"
    if start < len(text):
        yield number, _bounded(text, start, len(text), "")


def _bounded(text: str, start: int, end: int, terminator: str) -> str:
    if end - start > LONGEST_LINE:
        return text[start : start + LONGEST_LINE]
    return text[start:end] + terminator


def _process(text: str) -> Process:
    """The innermost process that a line names: a Ray worker behind its engine core."""
    named = list(_PROCESS.finditer(text[:_LONGEST_PREFIX]))
    if not named:
        return NOBODY
    found = named[-1]
    name, rank = found["name"], found["rank"]
    tensor = _number(_TENSOR_RANK, name)
    return Process(
        name=name if rank is None else f"{name} rank={rank}",
        pid=found["pid"],
        pipeline_rank=_number(_PIPELINE_RANK, name),
        tensor_rank=int(rank) if tensor is None and rank is not None else tensor,
    )


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.search(name)
    return None if found is None else int(found.group(1))
