"""Maps of memory in characters: each part stands where it begins, as long as it is large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kvplan_cli.report.explain_document import MapDocument, MapPartDocument
from kvplan_cli.report.grid import Column, Page, grid, needed_width
from kvplan_cli.report.words import count, gib, gib_unit
from kvplan_cli.values import dataclass

# A bar shorter than this shows nothing; the figures then stand alone.
_LEAST_BAR: Final = 16
_WIDEST_BAR: Final = 60
_GAP: Final = 3
_EDGES: Final = 2
_BLOCK_BAR: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ink:
    """What parts are drawn with: in turn, wasted, too small for a cell, and the frame."""

    held: str
    wasted: str
    trace: str
    edge: str


_LINES: Final = _Ink(held="█▓", wasted="░", trace="▏", edge="│")
_ASCII: Final = _Ink(held="#=", wasted=".", trace="'", edge="|")


def _ink(page: Page) -> _Ink:
    return _ASCII if page.ascii_only else _LINES


def memory_maps(maps: Sequence[MapDocument], of_end: str, page: Page) -> Iterator[RenderableType]:
    """The device, the budget and one request part by part; one block group by group.

    of_end: which end of an estimated memory they show, behind a card's and a budget's title.
    """
    for each in maps:
        if each.map_of != "block":
            yield _parts_map(each, "" if each.map_of == "request" else of_end, page)
    blocks = [each for each in maps if each.map_of == "block"]
    for size, alike in groupby(blocks, key=lambda each: each.total_bytes):
        yield _block_map(size, list(alike), page)


def _parts_map(memory: MapDocument, of_end: str, page: Page) -> RenderableType:
    columns = [
        Column(title="", figures=False),
        Column(title="GiB"),
        Column(title="%"),
    ]
    rows = [
        [part.name, gib(part.size_bytes), f"{100 * part.size_bytes / memory.total_bytes:.1f}"]
        for part in memory.parts
    ]
    width = min(_WIDEST_BAR, page.width - needed_width(columns, rows, fold=False) - _GAP - _EDGES)
    if width >= _LEAST_BAR:
        columns.append(Column(title="", align="left"))
        # Lines that a card has no room for run beyond it.
        whole = max(p.offset_bytes + p.size_bytes for p in memory.parts)
        for row, part in zip(rows, memory.parts, strict=True):
            row.append(_framed([part], max(whole, memory.total_bytes), width, _ink(page)))
    return grid(f"{_title(memory)}{of_end}", columns, rows, page)


_TITLES: Final = {
    "device": "Memory of a card",
    "budget": "Memory for the KV cache of a rank",
    "request": "One request, on a rank of each stage",
}


def _title(memory: MapDocument) -> str:
    of = f" ({memory.of})" if memory.of else ""
    return f"{_TITLES[memory.map_of]}{of}: {gib_unit(memory.total_bytes)}"


def _block_map(size: int, maps: Sequence[MapDocument], page: Page) -> RenderableType:
    """A line for each group whose layers fill the block alike, and what it is made of."""
    rows = [(each.of, _framed(each.parts, size, _BLOCK_BAR, _ink(page))) for each in maps]
    columns = (Column(title="", align="left"), Column(title="", align="left"))
    title = f"One block, by the group that holds it: {count(size)} bytes"
    texts = [Text(f"  {each.of}: {_made_of(each.parts)}") for each in maps]
    if needed_width(columns, rows) > page.width:
        return Group(Text(title, style="bold"), *texts)
    return Group(grid(title, columns, rows, page), *texts)


def _made_of(parts: Sequence[MapPartDocument]) -> str:
    """The parts in words: pages say their own size, what is wasted says it here."""
    return ", ".join(
        f"{count(part.size_bytes)} bytes {part.name}" if part.wasted else f"{part.name} bytes"
        for part in parts
    )


def _framed(parts: Sequence[MapPartDocument], total: int, width: int, ink: _Ink) -> str:
    cells = [" "] * width
    turn = 0
    for part in parts:
        first = min(width - 1, round(part.offset_bytes / total * width))
        end = min(width, round((part.offset_bytes + part.size_bytes) / total * width))
        mark = ink.wasted if part.wasted else ink.held[turn % len(ink.held)]
        turn += not part.wasted
        if end <= first:
            # Too small to be a cell of its own: seen only where nothing else stands.
            cells[first] = ink.trace if cells[first] == " " else cells[first]
        else:
            cells[first:end] = mark * (end - first)
    return f"{ink.edge}{''.join(cells)}{ink.edge}"
