"""Layer specs given outright in a plan file, for a model that nobody knows yet.

    layers:
      - repeat: 10
        layers:
          - {count: 5, spec: {class: SlidingWindowSpec, sliding_window: 1024, ...}}
          - {count: 1, spec: {class: FullAttentionSpec, ...}}
      - {names: [model.layers.60.attn], spec: {...}, stage: 0}

``count`` layers are named by ``name``, where ``{i}`` counts on through the whole list. The
order is the model's. ``stage`` puts an entry on a pipeline stage; all entries have it or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems, kind_of, nearest, printable, shown
from kvplan_cli.specs import KVCacheSpec
from kvplan_cli.specs.codec import spec_from_mapping
from kvplan_cli.values import dataclass

MAX_LAYERS: Final = 10_000
MAX_STAGES: Final = 1024
DEFAULT_NAME: Final = "model.layers.{i}.attn"
_GROUP_KEYS: Final = ("repeat", "layers", "stage")
_ENTRY_KEYS: Final = ("count", "name", "names", "spec", "stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLayers:
    """Specs of a model's layers, in order.

    stages: layer name to spec, for each pipeline stage. staged: the file itself put them on
    stages; otherwise all stand in one.
    """

    stages: tuple[Mapping[str, KVCacheSpec], ...]
    staged: bool


def read_layers(value: Any, where: str) -> GivenLayers:
    """The layers of a plan file's ``layers``. InputError names all faults by their path."""
    if not isinstance(value, list) or not value:
        raise _fault(where, f"expected a list of layer specs, got {kind_of(value)}")
    problems = Problems()
    reader = _Reader(problems=problems)
    for index, entry in enumerate(value):
        with problems.collecting():
            reader.read(entry, f"{where}[{index}]", stage=None, nested=False)
    problems.finish()
    return reader.result(where)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Reader:
    problems: Problems
    next_index: int = 0
    layers: dict[str, tuple[int | None, KVCacheSpec]] = field(default_factory=dict)

    def read(self, entry: Any, where: str, stage: int | None, *, nested: bool) -> None:
        if not isinstance(entry, Mapping):
            raise _fault(where, f"expected an object, got {kind_of(entry)}")
        is_group = "layers" in entry or "repeat" in entry
        if is_group and nested:
            raise _fault(where, "a repeated group inside a repeated group")
        _check_keys(entry, _GROUP_KEYS if is_group else _ENTRY_KEYS, where)
        if "stage" in entry:
            stage = _whole(entry["stage"], f"{where}.stage", 0, MAX_STAGES - 1)
        if is_group:
            self._read_group(entry, where, stage)
        else:
            self._read_entry(entry, where, stage)

    def _read_group(self, entry: Mapping[str, Any], where: str, stage: int | None) -> None:
        repeat = _whole(entry.get("repeat", 1), f"{where}.repeat", 1, MAX_LAYERS)
        inner = entry.get("layers")
        if not isinstance(inner, list) or not inner:
            raise _fault(f"{where}.layers", "expected a list of layer specs to repeat")
        for _ in range(repeat):
            for index, item in enumerate(inner):
                self.read(item, f"{where}.layers[{index}]", stage, nested=True)

    def _read_entry(self, entry: Mapping[str, Any], where: str, stage: int | None) -> None:
        spec = spec_from_mapping(entry.get("spec", {}), f"{where}.spec")
        for name in self._names(entry, where):
            if name in self.layers:
                raise _fault(where, f"two layers are called {shown(name)}")
            if len(self.layers) >= MAX_LAYERS:
                raise _fault(where, f"more than {MAX_LAYERS} layers")
            self.layers[name] = (stage, spec)

    def _names(self, entry: Mapping[str, Any], where: str) -> list[str]:
        if "names" in entry:
            names = entry["names"]
            if "count" in entry or "name" in entry:
                raise _fault(where, "names excludes count and name")
            if not isinstance(names, list) or not names or not all(map(_is_name, names)):
                raise _fault(f"{where}.names", "expected a list of layer names")
            self.next_index += len(names)
            return list(names)
        count = _whole(entry.get("count", 1), f"{where}.count", 1, MAX_LAYERS)
        pattern = entry.get("name", DEFAULT_NAME)
        if not _is_name(pattern) or (count > 1 and "{i}" not in pattern):
            raise _fault(
                f"{where}.name", "expected a name with {i} for the index", f"as in {DEFAULT_NAME}"
            )
        first = self.next_index
        self.next_index += count
        return [pattern.replace("{i}", str(i)) for i in range(first, first + count)]

    def result(self, where: str) -> GivenLayers:
        stages = {stage for stage, _ in self.layers.values()}
        if stages == {None}:
            specs = {name: spec for name, (_, spec) in self.layers.items()}
            return GivenLayers(stages=(specs,), staged=False)
        if None in stages:
            raise _fault(where, "some entries have a stage and some have none")
        count = max(stage for stage in stages if stage is not None) + 1
        if len(stages) != count:
            raise _fault(where, "a pipeline stage has no layers", f"use stages 0 to {count - 1}")
        parts: list[dict[str, KVCacheSpec]] = [{} for _ in range(count)]
        for name, (stage, spec) in self.layers.items():
            parts[stage or 0][name] = spec
        return GivenLayers(stages=tuple(parts), staged=True)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200


def _check_keys(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            near = nearest(str(key), known)
            raise _fault(
                f"{where}.{printable(str(key), 60)}",
                "no such key here",
                f"did you mean {near}?" if near else f"known: {', '.join(known)}",
            )


def _whole(value: Any, where: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        reason = f"expected a whole number of {least} to {most}, got {shown(value)}"
        raise _fault(where, reason)
    return value


def _fault(where: str, reason: str, way_out: str | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
