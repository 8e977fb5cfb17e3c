"""Sections on a page, as text."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from kvplan_cli.report.grid import Page
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What a terminal breaks at its width, and a file and a pipe get on one line."""

    text: str
    style: str = ""


def console_on(page: Page, buffer: io.StringIO) -> Console:
    """A console that draws exactly what the page allows, and takes nothing for markup."""
    return Console(
        file=buffer,
        width=page.width,
        force_terminal=page.color,
        color_system="standard" if page.color else None,
        no_color=not page.color,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def text_of(buffer: io.StringIO) -> str:
    """What was drawn, without blanks at line ends."""
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


def drawn(sections: Sequence[RenderableType], sentence: str, page: Page) -> str:
    """The sections with a line between them, and the sentence last."""
    return drawn_blocks([[section] for section in sections], sentence, page)


def drawn_blocks(
    blocks: Sequence[Sequence[RenderableType | Sentence]], sentence: str, page: Page
) -> str:
    """Blocks with a line between them, and the sentence last."""
    buffer = io.StringIO()
    console = console_on(page, buffer)
    for block in blocks:
        for part in block:
            if isinstance(part, Sentence):
                console.print(Text(part.text, style=part.style), soft_wrap=not page.wrap_sentences)
            else:
                console.print(part)
        console.print()
    console.print(Text(sentence, style="bold"), soft_wrap=not page.wrap_sentences)
    return text_of(buffer)
