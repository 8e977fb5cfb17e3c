"""Answers that ``kvplan fit --json`` printed, kept in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_object
from kvplan_cli.loader.problems import printable, shown
from kvplan_cli.loader.sources import existing_path


def read_saved(reference: str, version: int) -> Mapping[str, Any] | None:
    """The document of a file that holds a saved answer; None for everything else.

    version: the schema that is read. Raises: InputError for another schema or another command's
    answer.
    """
    path = existing_path(reference, "MODEL") if reference.strip() else None
    if path is None or not path.is_file():
        return None
    try:
        document = read_object(path)
    except InputError:
        # No document at all: told by whoever reads it as a model.
        return None
    if "schema_version" not in document or "command" not in document:
        return None
    command, found = document["command"], document["schema_version"]
    again = f"save it again: kvplan fit MODEL --json > {place(path)}"
    if command != "fit":
        reason = f"a saved answer of {printable(str(command), 40)}; only those of fit are compared"
        raise _fault(f"{place(path)}: command", reason, again)
    if found != version or isinstance(found, bool):
        made = document.get("kvplan_version")
        by = f" of kvplan {printable(made, 40)}" if isinstance(made, str) else ""
        reason = f"schema {shown(found)}{by}; this kvplan reads schema {version}"
        raise _fault(f"{place(path)}: schema_version", reason, again)
    return document


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
