"""Collect all faults of an input, and show foreign text safely."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kvplan_cli.errors import InputError, Problem

SHOWN_CHARACTERS = 60


@dataclass(slots=True)
class Problems:
    """The faults found so far; ``finish`` raises them as one InputError."""

    found: list[Problem] = field(default_factory=list)

    def add(self, where: str, reason: str, way_out: str | None = None) -> None:
        """Note one fault and go on reading."""
        self.found.append(Problem(where=where, reason=reason, way_out=way_out))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep an InputError of the block and go on after it. Other errors pass."""
        try:
            yield
        except InputError as error:
            self.found.extend(error.problems)

    def finish(self) -> None:
        """Raise InputError with every fault, in the order found; nothing when there is none."""
        if self.found:
            raise InputError(self.found)


def shown(value: object, limit: int = SHOWN_CHARACTERS) -> str:
    """A value of an input as one short printable line: quoted, controls escaped, cut."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, dict | list | tuple | set):
        return f"{kind_of(value)} of {len(value)}"
    else:
        text = repr(value)
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return ascii(text) if not text.isprintable() else (f"'{text}'" if text == value else text)


def printable(text: str, limit: int = 300) -> str:
    """``text`` without control characters or lone surrogates, cut to ``limit``."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def kind_of(value: Any) -> str:
    """What a JSON or YAML value is, in a word a person uses."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true/false"),
        (dict, "an object"),
        ((list, tuple), "a list"),
        (str, "text"),
        ((int, float), "a number"),
    )
    if value is None:
        return "null"
    return next((word for kind, word in kinds if isinstance(value, kind)), "an odd value")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, None when nothing is close."""
    lowered = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name[:100].lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None
