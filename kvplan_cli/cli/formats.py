"""``--format`` and ``--json``, which is short for one of its values."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.cli.parser import Call
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import nearest, shown


def read_format(call: Call, formats: Sequence[str]) -> str:
    """The format that is asked for; the first one by default. Raises: InputError."""
    word = call.values.get("format")
    if call.values.get("json"):
        if word not in (None, "json"):
            raise _fault("--json and --format", "contradict each other", "drop one")
        return "json"
    return formats[0] if word is None else known_format(word, formats, "--format")


def known_format(word: str, formats: Sequence[str], where: str) -> str:
    """A format by its name. where: the option that names it. Raises: InputError."""
    if word not in formats:
        near = nearest(word, formats)
        hint = f"did you mean {near}? " if near else ""
        legal = f"{hint}one of {', '.join(formats)}"
        raise _fault(where, f"{shown(word)} is no format", legal)
    return word


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
