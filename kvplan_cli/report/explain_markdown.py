"""Why a plan is as it is, as Markdown for an issue or a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan_cli.report.explain_document import ExplainDocument, StandingDocument
from kvplan_cli.report.explain_text import (
    WASTE_WORDS,
    best_of_each,
    closing,
    standing_cells,
    waste_cells,
)
from kvplan_cli.report.sweep_rows import escaped
from kvplan_cli.report.tables import input_line


def markdown(document: ExplainDocument) -> str:
    """The sentence first; changes and waste as tables; every figure beneath a fold."""
    lines = [
        f"### kvplan explain: {escaped(document.fit.model.name)}",
        "",
        escaped(closing(document)),
        "",
        escaped(input_line(document.fit)),
        *_changes(document),
        *_waste(document),
        *_figures(document),
    ]
    return "".join(f"{line}\n" for line in lines)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], figures: int) -> Iterator[str]:
    """A table; so many columns behind the first one stand to the right."""
    yield ""
    yield f"| {' | '.join(titles)} |"
    sides = ["---", *["---:"] * figures, *["---"] * (len(titles) - figures - 1)]
    yield f"|{'|'.join(sides)}|"
    for row in rows:
        yield f"| {' | '.join(escaped(cell) for cell in row)} |"


def _changes(document: ExplainDocument) -> Iterator[str]:
    better = best_of_each(document.changes)
    together = [c for c in document.changes if c.together and c.effect == "better"]
    rows = [_row("now", document.now, "")]
    rows += [_row(c.typed, c.standing, c.cost) for c in (*better, *together) if c.standing]
    if len(rows) > 1:
        titles = ("flags", "requests at a time", "tokens", "longest context", "cards", "costs")
        yield from _table(titles, rows, 4)


def _row(typed: str, standing: StandingDocument, cost: str) -> tuple[str, ...]:
    return (typed, *standing_cells(standing), cost)


def _waste(document: ExplainDocument) -> Iterator[str]:
    rows = [
        (WASTE_WORDS[waste.kind][0], *waste_cells(waste), WASTE_WORDS[waste.kind][1])
        for waste in document.waste
    ]
    if rows:
        yield from _table(("waste", "MiB", "%", "of", "what it is"), rows, 2)


def _figures(document: ExplainDocument) -> Iterator[str]:
    figures = [*document.figures, *(waste.worked_out for waste in document.waste)]
    if figures:
        rows = [
            (
                f"{figure.name} ({figure.of})" if figure.of else figure.name,
                figure.formula,
                f"{figure.with_values} {figure.unit}",
                f"{figure.source}; {figure.note}" if figure.note else figure.source,
            )
            for figure in figures
        ]
        yield ""
        yield f"<details><summary>{len(figures)} figures, worked out</summary>"
        yield from _table(("figure", "formula", "values", "source"), rows, 0)
        yield ""
        yield "</details>"
