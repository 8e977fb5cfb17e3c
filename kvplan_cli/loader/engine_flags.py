"""Every option of the engine's serve command as its own argument parser takes it, and every
variable that it reads.

The table stands in ``engine_flags.json``; ``tests/conformance/make_serve_flags.py`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

from kvplan_cli.loader.flags import negations
from kvplan_cli.values import dataclass

_TABLE: Final = Path(__file__).with_name("engine_flags.json")


class Takes(Enum):
    """How many words stand behind an option.

    SWITCH and SET take none; only a SWITCH has spellings that turn it off.
    """

    SWITCH = "switch"
    SET = "set"
    ONE = "one"
    SOME = "some"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFlag:
    """One option. name: dashed, without the dashes in front. default: where it is plain."""

    name: str
    takes: Takes
    short: tuple[str, ...] = ()
    default: str | int | float | bool | None = None


@cache
def _document() -> Mapping[str, Any]:
    document: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return document


def table_release() -> str:
    """The engine's release that the table is of."""
    return str(_document()["release"])


@cache
def engine_variables() -> frozenset[str]:
    """The names of every environment variable that the engine reads."""
    return frozenset(_document()["environment"])


@cache
def engine_flags() -> Mapping[str, EngineFlag]:
    """Dashed name to option."""
    return {
        name: EngineFlag(
            name=name,
            takes=Takes(entry["takes"]),
            short=tuple(entry.get("short", ())),
            default=entry.get("default"),
        )
        for name, entry in _document()["flags"].items()
    }


@cache
def engine_spellings() -> Mapping[str, tuple[EngineFlag, bool]]:
    """Spelling with its dashes to its option, and whether it turns it off."""
    table: dict[str, tuple[EngineFlag, bool]] = {}
    for flag in engine_flags().values():
        for spelling in (f"--{flag.name}", *flag.short):
            table[spelling] = (flag, False)
        if flag.takes is Takes.SWITCH:
            table |= {f"--{name}": (flag, True) for name in negations(flag.name)}
    return table
