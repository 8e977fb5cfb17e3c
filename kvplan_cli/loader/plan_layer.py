"""One layer of a plan: what a file, or a named part of it, gives by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.catalogue import model_of_hub_id
from kvplan_cli.loader.expectations import Expectation, read_expectations
from kvplan_cli.loader.flag_values import (
    GivenFlags,
    is_known_flag,
    nearest_flag,
    read_flags,
)
from kvplan_cli.loader.given_layers import GivenLayers, read_layers
from kvplan_cli.loader.known_memory import KnownMemory
from kvplan_cli.loader.plan_chain import Part, Served
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
class ModelReference:
    """A model as a file names it, or its config inline. path: that file."""

    value: str | Mapping[str, Any]
    path: Path
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLayer:
    """What one part gives. None and empty: not given.

    places: key to where it stands. removed, removed_flags: keys, and flags as spelled, that are
    null, which take out what the layers below give. An expectation or variable that is null is
    None. notes: what is to be said of it.
    """

    model: ModelReference | None
    flags: GivenFlags
    memory: KnownMemory
    expect: Mapping[str, Expectation | None]
    layers: GivenLayers | None
    env: Mapping[str, str | None]
    engine_version: str | None
    places: Mapping[str, str]
    removed: frozenset[str] = frozenset()
    removed_flags: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def read_layer(part: Part, problems: Problems) -> PlanLayer:
    """Check what a part gives; its faults go to ``problems``."""
    if part.served is not None:
        return served_layer(part.path, part.served)
    parts, top_flags = _split(part, problems)
    reader = _Reader(part=part, parts=parts, problems=problems)
    serve = reader.serve(top_flags)
    return PlanLayer(
        model=reader.model(),
        flags=reader.flags(serve),
        memory=reader.memory(),
        expect=reader.expectations(),
        layers=reader.section("layers", read_layers),
        env=reader.section("env", _read_env) or {},
        engine_version=reader.section("engine-version", _read_release),
        places={key: reader.place(key) for key in parts},
        removed=frozenset(key for key, value in parts.items() if value is None),
        removed_flags=frozenset(key for key, value in serve.items() if value is None),
    )


def served_layer(path: Path, served: Served) -> PlanLayer:
    """What a serve command of a manifest, compose file or Helm values gives.

    Raises: InputError.
    """
    from kvplan_cli.loader.deployment import image_release, read_deployment

    deployment = read_deployment(served.documents, path, served.service)
    command = deployment.command
    # A bundled model is the hub's at the revision that was looked at.
    bundled = None if "revision" in command.flags.values else model_of_hub_id(command.model)
    name = command.model if bundled is None else bundled.name
    release, note = image_release(command.image)
    return PlanLayer(
        model=ModelReference(value=name, path=path, where=command.where),
        flags=command.flags,
        memory=KnownMemory(gpu=deployment.gpu),
        expect={},
        layers=None,
        env=command.env,
        engine_version=release,
        places={
            "model": command.where,
            "gpu": deployment.gpu_place,
            "env": command.where,
            "engine-version": f"{command.where}: image",
        },
        notes=(*([note] if note else []), *deployment.notes),
    )


def _split(part: Part, problems: Problems) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan's own keys, and the engine flags at the top."""
    parts: dict[str, Any] = {}
    flags: dict[str, Any] = {}
    for key, value in part.content.items():
        name = key.replace("_", "-")
        if name in part.structure:
            continue
        if name in PLAN_KEYS:
            if name in parts:
                problems.add(f"{part.where}: {key}", "stands there twice, in two spellings")
            parts[name] = value
        elif is_known_flag(key):
            flags[key] = value
        else:
            known = (*PLAN_KEYS, *part.structure)
            near = nearest(name, known) or nearest_flag(key)
            problems.add(
                f"{part.where}: {printable(key, 80)}",
                "neither a key of a plan file nor a flag of the engine",
                f"did you mean {near}?" if near else f"keys: {', '.join(known)}",
            )
    return parts, flags


@dataclasses.dataclass(slots=True, kw_only=True)
class _Reader:
    part: Part
    parts: Mapping[str, Any]
    problems: Problems

    def place(self, key: str) -> str:
        return f"{self.part.where}: {key}"

    def section(self, key: str, read: Any) -> Any:
        """A part read by ``read(value, place)``; None where it is absent or at fault."""
        value = self.parts.get(key)
        if value is None:
            return None
        with self.problems.collecting():
            return read(value, self.place(key))
        return None

    def model(self) -> ModelReference | None:
        value = self.parts.get("model")
        if value is None:
            return None
        if (isinstance(value, str) and value.strip()) or (isinstance(value, Mapping) and value):
            return ModelReference(value=value, path=self.part.path, where=self.place("model"))
        self.problems.add(
            self.place("model"),
            f"expected a model's name, path or config, got {kind_of(value)}",
            "or give layers with their specs",
        )
        return None

    def serve(self, top: Mapping[str, Any]) -> Mapping[str, Any]:
        """The engine flags, from the one place where they stand."""
        serve = self.parts.get("serve")
        if serve is None:
            return top
        if top:
            self.problems.add(
                self.place(printable(next(iter(top)), 80)),
                "engine flags stand both at the top and under serve",
                "move them under serve",
            )
        if not isinstance(serve, Mapping):
            self.problems.add(self.place("serve"), f"expected engine flags, got {kind_of(serve)}")
            return {}
        return serve

    def flags(self, serve: Mapping[str, Any]) -> GivenFlags:
        where = self.part.where if self.parts.get("serve") is None else self.place("serve")
        with self.problems.collecting():
            return read_flags(serve, where)
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

    def expectations(self) -> dict[str, Expectation | None]:
        given = self.section("expect", read_expectations)
        if not given:
            return {}
        spelled = {key.replace("_", "-"): key for key in self.parts["expect"]}
        prefix = f"{self.part.at}.expect" if self.part.at else "expect"
        return {
            name: None
            if value is None
            else Expectation(
                name=name, value=value, path=self.part.path, key=f"{prefix}.{spelled[name]}"
            )
            for name, value in given.items()
        }

    def _beside(self, key: str) -> str | None:
        """A file's name: beside the plan file where it is there, else from here."""
        name = self.section(key, _read_text)
        if name is None:
            return None
        found = existing_path(name, self.place(key), base=self.part.path.parent)
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


def _read_env(value: Any, where: str) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        reason = f"expected environment variables, got {kind_of(value)}"
        raise InputError(Problem(where=where, reason=reason))
    problems = Problems()
    env: dict[str, str | None] = {}
    for name, setting in value.items():
        if setting is not None and (
            isinstance(setting, bool) or not isinstance(setting, str | int)
        ):
            problems.add(f"{where}.{printable(name, 80)}", f"expected text, got {kind_of(setting)}")
        env[name] = None if setting is None else str(setting)
    problems.finish()
    return env
