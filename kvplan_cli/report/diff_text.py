"""Two answers for people: what changed, by part, and the answer in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import RenderableType

from kvplan_cli.report.diff_document import ChangeDocument, DiffDocument
from kvplan_cli.report.diff_words import HEADINGS, answer, label, percent, side, signed, value
from kvplan_cli.report.document import NoticeDocument
from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.sheet import Sentence, drawn_blocks
from kvplan_cli.report.words import printable

_FIGURES: Final = (
    Column(title="", figures=False),
    Column(title="a"),
    Column(title="b"),
    Column(title="change"),
    Column(title=""),
    Column(title="", align="left"),
)
_TEXTS: Final = (
    Column(title="", figures=False),
    Column(title="a", figures=False),
    Column(title="b", figures=False),
)


def render_diff(document: DiffDocument, page: Page) -> str:
    """The whole text, ending in a line feed."""
    return drawn_blocks(list(_blocks(document, page)), answer(document), page)


def _blocks(document: DiffDocument, page: Page) -> Iterator[list[RenderableType | Sentence]]:
    yield [
        Sentence(text=side("a", document.a), style="bold"),
        Sentence(text=side("b", document.b), style="bold"),
    ]
    for part, run in groupby(document.changes, key=lambda change: change.part):
        changes = list(run)
        yield [*_tables(HEADINGS[part], changes, page)]
    notices = [
        *_notices("Only a", document.notices_gone),
        *_notices("Only b", document.notices_new),
    ]
    if notices:
        yield [*notices]


def _tables(title: str, changes: Sequence[ChangeDocument], page: Page) -> Iterator[RenderableType]:
    """Figures with their change; texts, which have none, in a table of their own."""
    figures = [each for each in changes if each.unit != "text"]
    texts = [each for each in changes if each.unit == "text"]
    if figures:
        rows = [
            (
                label(each),
                value(each, each.a),
                value(each, each.b),
                signed(each),
                percent(each),
                each.effect or "",
            )
            for each in figures
        ]
        yield grid(title, _FIGURES, rows, page)
    if texts:
        cells = [(label(each), value(each, each.a), value(each, each.b)) for each in texts]
        yield grid("" if figures else title, _TEXTS, cells, page)


def _notices(heading: str, notices: Sequence[NoticeDocument]) -> Iterator[Sentence]:
    for notice in notices:
        yield Sentence(text=f"{heading}: {notice.kind}: {printable(notice.message)}")
