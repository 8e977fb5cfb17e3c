"""Plan files and the engine's serve YAML: one reader, so that one file can serve both.

A plan file is ``model:`` (any form of MODEL, or the config inline) or ``layers:``, with what
is known beside it. Every other key must be an engine flag: under ``serve:`` or, as in serve
YAML, at the top. Flags may stand in one of the two places, not in both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.expectations import read_expectations
from kvplan_cli.loader.flag_values import GivenFlags, is_known_flag, nearest_flag, read_flags
from kvplan_cli.loader.given_layers import GivenLayers, read_layers
from kvplan_cli.loader.known_memory import KnownMemory
from kvplan_cli.loader.problems import Problems, kind_of, nearest, printable
from kvplan_cli.loader.sizes import parse_size, parse_sizes
from kvplan_cli.loader.sources import existing_path
from kvplan_cli.values import dataclass

PLAN_KEYS: Final = (
    "model",
    "serve",
    "gpu",
    "gpu-mem",
    "kv-mem",
    "weights",
    "from-log",
    "profile",
    "expect",
    "layers",
    "env",
    "engine-version",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan file's content, checked.

    model: a reference, or the config inline; None with layers alone. path: the file, for
    references that stand beside it. memory_origins: key to place, of what memory gives.
    """

    path: Path
    model: str | Mapping[str, Any] | None
    flags: GivenFlags = field(default_factory=GivenFlags)
    memory: KnownMemory = field(default_factory=KnownMemory)
    expect: Mapping[str, int | float] = field(default_factory=dict)
    layers: GivenLayers | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    engine_version: str | None = None

    def where(self, key: str) -> str:
        """How errors and origins name a key of this file."""
        return f"{place(self.path)}: {key}"


def read_plan(document: Mapping[str, Any], path: Path) -> PlanFile:
    """Check a plan file's content. InputError names all faults at once."""
    problems = Problems()
    parts, top_flags = _split(document, place(path), problems)
    reader = _PlanReader(parts=parts, folder=path.parent, where=place(path), problems=problems)
    plan = PlanFile(
        path=path,
        model=reader.model(),
        flags=reader.flags(top_flags),
        memory=reader.memory(),
        expect=reader.section("expect", read_expectations) or {},
        layers=reader.section("layers", read_layers),
        env=reader.section("env", _read_env) or {},
        engine_version=reader.section("engine-version", _read_release),
    )
    problems.finish()
    return plan


def _split(
    document: Mapping[str, Any], where: str, problems: Problems
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan's own keys, and the engine flags at the top."""
    parts: dict[str, Any] = {}
    flags: dict[str, Any] = {}
    for key, value in document.items():
        name = key.replace("_", "-")
        if name in PLAN_KEYS:
            if name in parts:
                problems.add(f"{where}: {key}", "stands there twice, in two spellings")
            parts[name] = value
        elif is_known_flag(key):
            flags[key] = value
        else:
            near = nearest(name, PLAN_KEYS) or nearest_flag(key)
            problems.add(
                f"{where}: {printable(key, 80)}",
                "neither a key of a plan file nor a flag of the engine",
                f"did you mean {near}?" if near else f"keys: {', '.join(PLAN_KEYS)}",
            )
    return parts, flags


@dataclasses.dataclass(slots=True, kw_only=True)
class _PlanReader:
    parts: Mapping[str, Any]
    folder: Path
    where: str
    problems: Problems

    def section(self, key: str, read: Any) -> Any:
        """A part read by ``read(value, place)``; None where it is absent or at fault."""
        value = self.parts.get(key)
        if value is None:
            return None
        with self.problems.collecting():
            return read(value, f"{self.where}: {key}")
        return None

    def model(self) -> str | Mapping[str, Any] | None:
        value = self.parts.get("model")
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, Mapping) and value:
            return value
        if value is not None or "layers" not in self.parts:
            self.problems.add(
                f"{self.where}: model",
                f"expected a model's name, path or config, got {kind_of(value)}",
                "or give layers with their specs",
            )
        return None

    def flags(self, top: Mapping[str, Any]) -> GivenFlags:
        serve = self.parts.get("serve")
        if serve is None:
            return self._read_flags(top, self.where)
        if top:
            self.problems.add(
                f"{self.where}: {printable(next(iter(top)), 80)}",
                "engine flags stand both at the top and under serve",
                "move them under serve",
            )
        if not isinstance(serve, Mapping):
            self.problems.add(
                f"{self.where}: serve", f"expected engine flags, got {kind_of(serve)}"
            )
            return GivenFlags()
        return self._read_flags(serve, f"{self.where}: serve")

    def _read_flags(self, mapping: Mapping[str, Any], where: str) -> GivenFlags:
        with self.problems.collecting():
            return read_flags(mapping, where)
        return GivenFlags()

    def memory(self) -> KnownMemory:
        return KnownMemory(
            gpu=self.section("gpu", _read_text),
            gpu_mem_bytes=self.section("gpu-mem", parse_size),
            kv_mem_bytes=self.section("kv-mem", parse_sizes) or (),
            weights_bytes=self.section("weights", parse_sizes) or (),
            from_log=self._beside("from-log"),
            profile=self._beside("profile"),
        )

    def _beside(self, key: str) -> str | None:
        """A file's name: beside the plan file where it is there, else from here."""
        name = self.section(key, _read_text)
        if name is None:
            return None
        found = existing_path(name, f"{self.where}: {key}", base=self.folder)
        return name if found is None else str(found)


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(Problem(where=where, reason=f"expected a name, got {kind_of(value)}"))
    return value


def _read_release(value: Any, where: str) -> str:
    if isinstance(value, float | int) and not isinstance(value, bool):
        reason = f"expected a release as text, got the number {value}"
        raise InputError(Problem(where=where, reason=reason, way_out=f'write "{value}"'))
    return _read_text(value, where)


def _read_env(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        reason = f"expected environment variables, got {kind_of(value)}"
        raise InputError(Problem(where=where, reason=reason))
    problems, env = Problems(), {}
    for name, setting in value.items():
        if isinstance(setting, bool) or not isinstance(setting, str | int):
            problems.add(f"{where}.{printable(name, 80)}", f"expected text, got {kind_of(setting)}")
        env[name] = str(setting)
    problems.finish()
    return env
