"""Sections on a page, as text."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from kvplan_cli.report.grid import Page


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
    buffer = io.StringIO()
    console = console_on(page, buffer)
    for section in sections:
        console.print(section)
        console.print()
    console.print(Text(sentence, style="bold"), soft_wrap=not page.wrap_sentences)
    return text_of(buffer)
