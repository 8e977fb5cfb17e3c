"""Figures and names as people read them. GiB exists in renderers only: here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kvplan_cli.units import GIB, spans

UNKNOWN: Final = "-"
# The lines of a memory ladder, by their names in the document.
LINE_NAMES: Final = {
    "weights": "weights",
    "persistent_buffers": "persistent buffers",
    "outside_allocator": "outside the allocator",
    "transient": "transient peak",
    "cuda_graphs": "CUDA graphs",
}

_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def gib(size: int) -> str:
    """Bytes in GiB with two decimals."""
    return f"{size / GIB:,.2f}"


def gib_unit(size: int) -> str:
    """``gib`` with its unit."""
    return f"{gib(size)} GiB"


def count(value: int | None) -> str:
    """A whole number with thousands apart; a dash where there is none."""
    return UNKNOWN if value is None else f"{value:,}"


def requests(value: float | None) -> str:
    """A concurrency as the engine prints it: two decimals."""
    return UNKNOWN if value is None else f"{value:,.2f}"


def plural(value: int, noun: str) -> str:
    """``1 layer``, ``2 layers``."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def printable(text: str) -> str:
    """Names and file contents are data: control characters are shown, not obeyed."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape", "surrogatepass").decode("ascii")


def layer_runs(names: Sequence[str]) -> list[str]:
    """Layer names with their numbers drawn together, in order of first appearance.

    ``model.layers.{0-4,6-10}.self_attn.attn`` stands for ten layers. The number that differs
    between names is the one drawn together; names that differ in more are told apart.
    """
    runs: dict[tuple[str, str], list[int]] = {}
    single: dict[tuple[str, str], str] = {}
    for name in names:
        key, number = _split(name)
        runs.setdefault(key, [])
        single[key] = name
        if number is not None:
            runs[key].append(number)
    return [
        single[key] if len(numbers) < 2 else f"{key[0]}{{{spans(numbers)}}}{key[1]}"
        for key, numbers in runs.items()
    ]


def _split(name: str) -> tuple[tuple[str, str], int | None]:
    """The text around a name's first number that stands between dots, and that number."""
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdecimal() and part.isascii():
            before = ".".join([*parts[:index], ""])
            after = ".".join(["", *parts[index + 1 :]])
            return (before, after), int(part)
    return (name, ""), None


def folded(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` where commas and dots allow; a number is never broken."""
    lines = [""]
    for piece in re.findall(r"[^,.]*[,.]?", text):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines
