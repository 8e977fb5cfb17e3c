"""The files that a call names: paths and patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import printable
from kvplan_cli.loader.sources import existing_path, missing_path
from kvplan_cli.values import dataclass

MOST_FILES: Final = 10_000
_WANTED: Final = "plan files, or a pattern such as 'deploy/**/*.yaml'"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file, or why there is none. by_pattern: whether a pattern found it."""

    path: Path
    by_pattern: bool = False
    error: InputError | None = None


def find_files(words: Sequence[str]) -> tuple[NamedFile, ...]:
    """The files in the order named, those of a pattern by name, each once.

    Patterns are those of ``glob``, ``**`` for any folders; a shell need not expand them.
    Raises: InputError where they are more than MOST_FILES.
    """
    found: dict[Path | str, NamedFile] = {}
    for word in words:
        for file in _named(word):
            key = word if file.error else Path(os.path.abspath(file.path))
            found.setdefault(key, file)
            if len(found) > MOST_FILES:
                reason = f"more than {MOST_FILES} files"
                raise InputError(Problem(where="FILE", reason=reason, way_out="name fewer"))
    return tuple(found.values())


def _named(word: str) -> Iterator[NamedFile]:
    if not word.strip():
        yield _nothing("FILE", "an empty name", _WANTED)
        return
    try:
        path = existing_path(word, "FILE")
    except InputError as error:
        yield NamedFile(path=Path(printable(word, 200)), error=error)
        return
    if path is not None and path.is_dir():
        yield _nothing(word, "a folder where files are needed", f"'{word.rstrip('/')}/*.yaml'")
    elif path is not None:
        yield NamedFile(path=path)
    elif not any(sign in word for sign in "*?["):
        yield NamedFile(path=Path(printable(word, 200)), error=missing_path(word, "FILE"))
    else:
        names = islice(glob.iglob(os.path.expanduser(word), recursive=True), MOST_FILES + 1)
        paths = [Path(name) for name in sorted(names)]
        files = [each for each in paths if not each.is_dir()]
        yield from (NamedFile(path=each, by_pattern=True) for each in files)
        if not files:
            yield _nothing(word, "no file matches this pattern", _WANTED)


def _nothing(word: str, reason: str, way_out: str) -> NamedFile:
    where = printable(word, 200)
    problem = Problem(where=where, reason=reason, way_out=way_out)
    return NamedFile(path=Path(where), error=InputError(problem))
