"""What a start-up log told, figure by figure, with the lines they stand in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType

from kvplan_cli.report.document import MeasuredDocument, MeasuredRankDocument
from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.words import gib

_WORDS: Final = {
    "available": "available for the cache",
    "weights": "weights",
    "consumed": "weights, buffers and outside",
    "activation": "peak of the profile run",
    "non_torch": "outside torch",
    "graphs": "CUDA graphs",
    "graphs_estimated": "CUDA graphs as estimated",
    "free": "free at start",
    "total": "total of the card",
}


def measured_table(measured: MeasuredDocument, page: Page) -> RenderableType:
    """A row for each figure of each process."""
    release = f" (vLLM {measured.release})" if measured.release else ""
    columns = (
        Column(title="", figures=False),
        Column(title="GiB"),
        Column(title="process", figures=False),
        Column(title="from", figures=False),
    )
    rows = [row for rank in measured.ranks for row in _rows(rank, f"{measured.origin}:")]
    return grid(f"Measured by {measured.origin}{release}", columns, rows, page)


def _rows(rank: MeasuredRankDocument, origin: str) -> Iterator[tuple[str, str, str, str]]:
    for figure in rank.figures:
        size = figure.bytes_per_rank
        yield (
            _WORDS.get(figure.name, figure.name),
            gib(size.likely),
            rank.process,
            _line(size.note, origin),
        )


def _line(note: str, origin: str) -> str:
    """``line 13``: the title names the log."""
    lines = note.removeprefix(origin)
    if lines == note:
        return note
    return f"lines {lines.replace(',', ', ')}" if "," in lines else f"line {lines}"
