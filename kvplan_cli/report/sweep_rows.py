"""A sweep's rows for programs and pages: CSV, JSON lines, Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Final

from kvplan_cli.report.json_form import plain
from kvplan_cli.report.sweep_document import RowDocument, SweepDocument
from kvplan_cli.report.words import printable

_FIGURES: Final = (
    "gpus",
    "available_bytes",
    "max_model_len_tokens",
    "num_blocks",
    "kv_cache_size_tokens",
    "max_concurrency_requests",
)
_MARKDOWN_FIGURES: Final = {
    "gpus": "GPUs",
    "max_model_len_tokens": "tokens of a request",
    "num_blocks": "blocks",
    "kv_cache_size_tokens": "tokens",
    "max_concurrency_requests": "requests at a time",
}


def csv_text(document: SweepDocument) -> str:
    """One line a row, with a heading; what is not known is empty."""
    names = [axis.name for axis in document.axes]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*names, "state", *_FIGURES, "best", "reason"])
    for row in document.rows:
        values = [row.values[name] for name in names]
        figures = [getattr(row, name) for name in _FIGURES]
        reason = None if row.reason is None else printable(row.reason)
        writer.writerow([_csv(each) for each in (*values, row.state, *figures, row.best, reason)])
    return buffer.getvalue()


def _csv(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def json_lines(document: SweepDocument) -> str:
    """One JSON object a row, each as in the document's ``rows``."""
    return "".join(f"{json.dumps(plain(row), allow_nan=False)}\n" for row in document.rows)


def markdown(document: SweepDocument) -> str:
    """A table for a comment or a page; the best row in bold."""
    names = [axis.name for axis in document.axes]
    header = [*(f"`{name}`" for name in names), *_MARKDOWN_FIGURES.values(), "answer"]
    sides = ["---:"] * (len(header) - 1) + ["---"]
    lines = [header, sides, *(_markdown_cells(row, names) for row in document.rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _markdown_cells(row: RowDocument, names: Sequence[str]) -> list[str]:
    figures = [getattr(row, name) for name in _MARKDOWN_FIGURES]
    cells = [_shown(value) for value in (*(row.values[name] for name in names), *figures)]
    cells.append(escaped(row.reason or row.state.replace("_", " ")))
    return [f"**{cell}**" if row.best and cell else cell for cell in cells]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else escaped(str(value))


def escaped(text: str) -> str:
    """A text that Markdown takes for nothing but text."""
    for sign in ("\\", "|", "*", "_", "`", "<"):
        text = text.replace(sign, f"\\{sign}")
    return printable(text)
