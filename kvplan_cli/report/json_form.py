"""A document as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def plain(value: object) -> Any:
    """Named tuples and mappings as dicts, other tuples as lists."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return [plain(part) for part in value]
        return {name: plain(part) for name, part in zip(names, value, strict=True)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    return value


def dumps(value: object) -> str:
    """One JSON text, readable by people, in ASCII so that no output encoding spoils it."""
    return json.dumps(plain(value), indent=2, allow_nan=False)
