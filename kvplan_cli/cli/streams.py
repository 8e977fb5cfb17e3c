"""stdout and stderr: whole texts, in whatever encoding stands there, and closed pipes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from kvplan_cli.errors import InputError, Problem

if TYPE_CHECKING:
    from kvplan_cli.report.grid import Page

_LEAST_WIDTH: Final = 20


def write(text: str) -> None:
    """Put ``text`` on stdout. A reader that has gone is no error; a full disk is.

    Raises: InputError where stdout can't be written.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(encodable(text, sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        silence_stdout()
        raise InputError(
            Problem(where="stdout", reason=f"can't be written: {error.strerror or error}")
        ) from error


def write_error(text: str) -> None:
    """Put ``text`` on stderr; nothing can be told where that fails."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(encodable(text, sys.stderr))
        sys.stderr.flush()
    except OSError:
        return


def encodable(text: str, stream: TextIO) -> str:
    """``text`` with what the stream can't encode shown as escapes."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def silence_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter ends quietly."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        return


def page(stream: TextIO | None = None) -> Page:
    """What a stream is, for the tables; stdout where none is named."""
    from shutil import get_terminal_size

    from kvplan_cli.report.grid import Page

    stream = sys.stdout if stream is None else stream
    terminal = stream is not None and stream.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Page(
        width=max(_LEAST_WIDTH, get_terminal_size((80, 24)).columns),
        ascii_only=not _encodes_lines(stream),
        color=color,
        wrap_sentences=terminal,
    )


def file_page() -> Page:
    """A file: as wide as the terminal, in UTF-8, without colour or broken sentences."""
    from shutil import get_terminal_size

    from kvplan_cli.report.grid import Page

    width = max(_LEAST_WIDTH, get_terminal_size((80, 24)).columns)
    return Page(width=width, wrap_sentences=False)


def _encodes_lines(stream: TextIO | None) -> bool:
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        "─".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
