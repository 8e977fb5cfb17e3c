"""Profiles: what a start measured, kept as JSON for later plans of the same model and card."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kvplan_cli import __version__
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_object
from kvplan_cli.loader.flag_values import read_flags
from kvplan_cli.loader.problems import kind_of, nearest, printable, shown
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.measured import MEASURED_NAMES, MeasuredMemory, MeasuredRank, Profile

PROFILE_VERSION: Final = 1
KIND: Final = "kvplan profile"
_NAME: Final = re.compile(r"[\w][\w.-]{0,63}", re.ASCII)
# They differ between copies of one model and size nothing.
_UNSIZED_KEYS: Final = frozenset({"_name_or_path", "transformers_version", "auto_map"})


def fingerprint(config: Mapping[str, Any]) -> str:
    """A digest of a model's config that copies and fine-tunes of equal shape share."""
    sized = {key: value for key, value in config.items() if key not in _UNSIZED_KEYS}
    text = json.dumps(sized, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def profile_path(reference: str, where: str) -> Path:
    """Where a profile stands: a file, or a name in the user's own folder of profiles."""
    if reference.lower().endswith(".json") or "/" in reference or os.sep in reference:
        return Path(reference).expanduser()
    if not _NAME.fullmatch(reference):
        reason = f"{shown(reference)} is neither a name nor a .json file"
        raise InputError(
            Problem(where=where, reason=reason, way_out="letters, digits, dots and dashes")
        )
    return profiles_folder() / f"{reference}.json"


def profiles_folder() -> Path:
    """The user's folder of profiles, by the rules of the XDG base directories."""
    home = os.environ.get("XDG_CONFIG_HOME")
    if not home and sys.platform == "win32":
        home = os.environ.get("APPDATA")
    base = Path(home) if home and Path(home).is_absolute() else Path("~/.config").expanduser()
    return base / "kvplan" / "profiles"


def write_profile(profile: Profile, path: Path, where: str) -> None:
    """Keep a profile, whole or not at all. InputError where it can't be written."""
    text = json.dumps(_document(profile), indent=2, allow_nan=False) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = f"{place(path)} can't be written: {printable(error.strerror or str(error))}"
        raise InputError(Problem(where=where, reason=reason)) from None


def read_profile(reference: str, where: str = "--profile") -> Profile:
    """The profile of this name or file. InputError where there is none, or it is no profile."""
    path = profile_path(reference, where)
    if not path.exists():
        raise _missing(reference, path, where)
    document = read_object(path)
    origin = place(path)
    if document.get("kind") != KIND or document.get("schema_version") != PROFILE_VERSION:
        raise InputError(
            Problem(
                where=f"{where}: {origin}",
                reason=f"not a profile of version {PROFILE_VERSION}",
                way_out="make one with kvplan fit --from-log FILE --save-profile NAME",
            )
        )
    try:
        return _profile(document, origin)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"a damaged profile: {type(error).__name__} {printable(str(error), 80)}"
        raise InputError(Problem(where=f"{where}: {origin}", reason=reason)) from None


def _missing(reference: str, path: Path, where: str) -> InputError:
    try:
        names = sorted(each.stem for each in path.parent.glob("*.json"))[:200]
    except OSError:
        names = []
    near = nearest(reference, names)
    return InputError(
        Problem(
            where=where,
            reason=f"there is no profile {shown(reference)}: {place(path)}",
            way_out=f"did you mean {near}?" if near else "--save-profile keeps one",
        )
    )


def _document(profile: Profile) -> dict[str, Any]:
    measured = profile.measured
    return {
        "schema_version": PROFILE_VERSION,
        "kind": KIND,
        "kvplan_version": __version__,
        "model": {
            "name": profile.model,
            "architecture": profile.architecture,
            "fingerprint": profile.fingerprint,
        },
        "card": {"name": profile.card, "total_memory_bytes": profile.total_memory_bytes},
        "release": measured.release,
        "origin": measured.origin,
        "tells_all_flags": measured.tells_all_flags,
        "flags": {key: _plain(value) for key, value in measured.flags.items()},
        "ranks": [
            {
                "name": rank.name,
                "stage": rank.stage,
                "sizes_bytes": {
                    name: {
                        "low": size.low,
                        "likely": size.likely,
                        "high": size.high,
                        "note": size.note,
                    }
                    for name, size in rank.sizes.items()
                },
            }
            for rank in measured.ranks
        ],
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _profile(document: Mapping[str, Any], origin: str) -> Profile:
    model, card = document["model"], document["card"]
    flags = read_flags(document["flags"], f"{origin}: flags")
    return Profile(
        model=_text(model["name"]),
        architecture=_text(model["architecture"]),
        fingerprint=_text(model["fingerprint"]),
        card=_text(card["name"]),
        total_memory_bytes=_size(card["total_memory_bytes"]),
        measured=MeasuredMemory(
            origin=origin,
            release=_text(document["release"]),
            ranks=tuple(_rank(rank) for rank in document["ranks"]),
            flags=flags.values,
            tells_all_flags=document["tells_all_flags"] is True,
        ),
    )


def _rank(rank: Mapping[str, Any]) -> MeasuredRank:
    stage = rank["stage"]
    return MeasuredRank(
        name=_text(rank["name"]),
        stage=None if stage is None else _size(stage),
        sizes={
            name: _estimate(size)
            for name, size in rank["sizes_bytes"].items()
            if name in MEASURED_NAMES
        },
    )


def _estimate(size: Mapping[str, Any]) -> Estimate:
    low, likely, high = (_size(size[key]) for key in ("low", "likely", "high"))
    if not low <= likely <= high:
        raise ValueError("low, likely and high are out of order")
    return Estimate(
        low=low, likely=likely, high=high, source=Source.MEASURED, note=_text(size["note"])
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {kind_of(value)}")
    return value


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected a whole number, got {kind_of(value)}")
    return value
