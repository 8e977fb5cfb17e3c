"""Files that a call asks for: looked at before the work, written after it."""

from __future__ import annotations

from pathlib import Path

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place


def check_writable(path: Path, where: str) -> None:
    """Refuse what can't become a file, before anything is computed. Raises: InputError."""
    if path.is_dir():
        raise _fault(f"{where}: {place(path)}", "a folder where a file is needed", None)
    if not path.parent.is_dir():
        reason = f"there is no folder {place(path.parent)}"
        raise _fault(f"{where}: {place(path)}", reason, "make it first")


def write_file(path: Path, text: str, *, over: bool = True) -> None:
    """Write a text as UTF-8. over: whether what stands there may go. Raises: InputError."""
    try:
        mode = "w" if over else "x"
        with path.open(mode, encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        reason = f"can't be written: {error.strerror or error}"
        raise _fault(place(path), reason, None) from error


def _fault(where: str, reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
