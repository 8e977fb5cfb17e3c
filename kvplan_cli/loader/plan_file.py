"""Plan files and the engine's serve YAML: one reader, so that one file can serve both.

A plan file is ``model:`` (any form of MODEL, or the config inline) or ``layers:``, with what
is known beside it. Every other key must be an engine flag: under ``serve:`` or, as in serve
YAML, at the top. Flags may stand in one of the two places, not in both.

Where a file extends another, or has environments or deployments, each is read by itself and
laid over those before it: objects are merged key by key, all else is replaced, and null takes
out what stands below. Paths are meant from the file that names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from kvplan_cli.loader.documents import place
from kvplan_cli.loader.expectations import Expectation
from kvplan_cli.loader.flag_values import GivenFlags, flag_name, merge
from kvplan_cli.loader.given_layers import GivenLayers
from kvplan_cli.loader.known_memory import KnownMemory
from kvplan_cli.loader.plan_chain import Choice, PlanChain
from kvplan_cli.loader.plan_layer import ModelReference, PlanLayer, read_layer
from kvplan_cli.loader.problems import Problems
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan file's content, checked.

    path: the file. model: None with layers alone. places: key to where it stands, which may be
    another file. contained: a manifest beneath runs the engine in a container, which sees no
    variables but its own. notes: what is to be said of the file.
    """

    path: Path
    model: ModelReference | None
    flags: GivenFlags = field(default_factory=GivenFlags)
    memory: KnownMemory = field(default_factory=KnownMemory)
    expect: Mapping[str, Expectation] = field(default_factory=dict)
    layers: GivenLayers | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    engine_version: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    contained: bool = False
    notes: tuple[str, ...] = ()

    def where(self, key: str) -> str:
        """How errors and origins name a key."""
        return self.places.get(key, f"{place(self.path)}: {key}")


def read_plan(chain: PlanChain, choice: Choice) -> PlanFile:
    """Check a plan file's content. InputError names all faults at once."""
    problems = Problems()
    parts = chain.parts(choice)
    layers = [read_layer(part, problems) for part in parts]
    whole = _whole(layers)
    if not any(_names_model(layer) for layer in layers):
        problems.add(
            f"{place(chain.path)}: model",
            "expected a model's name, path or config, got null",
            "or give layers with their specs; a file that others extend says base-only: true",
        )
    problems.finish()
    return PlanFile(
        path=chain.path,
        model=whole.model,
        flags=whole.flags,
        memory=whole.memory,
        expect={name: each for name, each in whole.expect.items() if each is not None},
        layers=whole.layers,
        env={name: text for name, text in whole.env.items() if text is not None},
        engine_version=whole.engine_version,
        places=whole.places,
        contained=any(part.served is not None for part in parts),
        notes=whole.notes,
    )


def _names_model(layer: PlanLayer) -> bool:
    """Whether it says what is planned, be it wrongly."""
    return any(key in layer.places and key not in layer.removed for key in ("model", "layers"))


def _whole(layers: Sequence[PlanLayer]) -> PlanLayer:
    return reduce(_laid_over, layers)


def _laid_over(below: PlanLayer, over: PlanLayer) -> PlanLayer:
    gone = over.removed
    return PlanLayer(
        model=_model(below, over),
        flags=_flags(below.flags, over),
        memory=over.memory.over(below.memory.without(gone)),
        expect={**({} if "expect" in gone else below.expect), **over.expect},
        layers=over.layers or (None if "layers" in gone else below.layers),
        env={**({} if "env" in gone else below.env), **over.env},
        engine_version=over.engine_version
        or (None if "engine-version" in gone else below.engine_version),
        places={**below.places, **over.places},
        notes=below.notes + over.notes,
    )


def _model(below: PlanLayer, over: PlanLayer) -> ModelReference | None:
    """Configs inline are merged; a name or path replaces what stands below."""
    if over.model is None:
        return None if "model" in over.removed else below.model
    if below.model is None:
        return over.model
    low, high = below.model.value, over.model.value
    if isinstance(low, Mapping) and isinstance(high, Mapping):
        merged = merged_objects(low, high)
        return ModelReference(value=merged, path=over.model.path, where=over.model.where)
    return over.model


def _flags(below: GivenFlags, over: PlanLayer) -> GivenFlags:
    if "serve" in over.removed:
        below = GivenFlags()
    for key in over.removed_flags:
        below = _without(below, key)
    merged = merge(below, over.flags)
    return replace(merged, values=merged_objects(below.values, over.flags.values))


def _without(given: GivenFlags, key: str) -> GivenFlags:
    """The same without a flag in any spelling, be it modelled or not."""
    name = flag_name(key)
    if name is not None:
        return given.without(name)
    wanted = key.replace("_", "-")

    def other(places: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(p for p in places if p.rpartition(": ")[2].replace("_", "-") != wanted)

    return replace(
        given,
        ignored=other(given.ignored),
        unestimated=other(given.unestimated),
        refused=other(given.refused),
    )


def merged_objects(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Objects key by key, to any depth; lists and all else of ``over`` replace those below."""
    merged = dict(below)
    for key, value in over.items():
        stands = merged.get(key)
        both = isinstance(stands, Mapping) and isinstance(value, Mapping)
        merged[key] = merged_objects(stands, value) if both else value  # type: ignore[arg-type]
    return merged
