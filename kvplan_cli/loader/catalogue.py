"""The bundled catalogue: models and cards by name, read from package data.

In a wheel the data stand in ``kvplan_cli/_configs``, in a checkout in ``configs`` beside the
package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.gpus import Gpu
from kvplan_cli.loader.documents import read_object
from kvplan_cli.loader.problems import Problems, nearest, shown
from kvplan_cli.units import GIB, MIB
from kvplan_cli.values import dataclass

# Cards of one kind differ by this much in what CUDA reports.
_SAME_MEMORY: Final = 50 * MIB
_PACKAGE: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """A bundled model.

    config: the facts of its config.json that a plan needs. origin: where they come from.
    """

    name: str
    hub_id: str
    config: Mapping[str, Any]
    origin: str
    aliases: tuple[str, ...] = ()
    extra_files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueGpu:
    """A bundled card.

    gpu: as CUDA reports it. marketing_gb: the size in its name, which is not what CUDA has.
    origin: where the total comes from.
    """

    name: str
    gpu: Gpu
    marketing_gb: int
    origin: str
    aliases: tuple[str, ...] = ()


def configs_folder() -> Path:
    """Where the bundled data stand."""
    installed = _PACKAGE / "_configs"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def model_names() -> tuple[str, ...]:
    """All bundled models, sorted."""
    return tuple(sorted(path.stem for path in (configs_folder() / "models").glob("*.json")))


def models() -> Iterator[CatalogueModel]:
    """All bundled models, by name."""
    return (_read_model(name) for name in model_names())


def find_model(name: str) -> CatalogueModel | None:
    """The model of this name or alias, in any case; None where there is none.

    The hub id itself is no catalogue name: it asks for the hub's own, current file.
    """
    wanted = name.lower()
    if wanted in model_names():
        return _read_model(wanted)
    return next((model for model in _holding(wanted) if wanted in model.aliases), None)


def model_of_hub_id(hub_id: str) -> CatalogueModel | None:
    """The bundled model that stands for a repository of the hub."""
    wanted = hub_id.lower()
    return next((model for model in _holding(wanted) if model.hub_id.lower() == wanted), None)


def _holding(wanted: str) -> Iterator[CatalogueModel]:
    """Bundled models whose files hold this lower-case name: few of them need be parsed."""
    for path in sorted((configs_folder() / "models").glob("*.json")):
        if wanted in path.read_text(encoding="utf-8").lower():
            yield _read_model(path.stem)


def nearest_model(name: str) -> str | None:
    """The bundled model that ``name`` probably means."""
    names = {known: known for known in model_names()}
    for model in models():
        names.update(dict.fromkeys(model.aliases, model.name))
        names[model.hub_id.lower()] = model.name
        names[model.hub_id.lower().rpartition("/")[2]] = model.name
    close = nearest(name, names)
    return names[close] if close else None


def catalogue_model(entry: Mapping[str, Any], where: str) -> CatalogueModel:
    """The model of a catalogue entry's content. InputError where a part is missing."""
    problems = Problems()
    for key, kind in (("name", str), ("hub_id", str), ("origin", str), ("config", dict)):
        if not isinstance(entry.get(key), kind):
            problems.add(f"{where}: {key}", "a catalogue entry needs it")
    problems.finish()
    return CatalogueModel(
        name=entry["name"],
        hub_id=entry["hub_id"],
        config=entry["config"],
        origin=entry["origin"],
        aliases=tuple(alias.lower() for alias in entry.get("aliases", ())),
        extra_files=entry.get("extra_files", {}),
    )


def _read_model(name: str) -> CatalogueModel:
    path = configs_folder() / "models" / f"{name}.json"
    return catalogue_model(read_object(path), path.name)


def gpus() -> tuple[CatalogueGpu, ...]:
    """All bundled cards, in the file's order."""
    return _cards(configs_folder() / "gpus" / "cards.json")


@cache
def _cards(path: Path) -> tuple[CatalogueGpu, ...]:
    return tuple(_card(entry) for entry in read_object(path)["cards"])


# AMD's and Intel's names, as far as they can't be meant for one of NVIDIA's.
_OTHER_MAKERS: Final = re.compile(r"(amd|radeon|instinct|intel|gaudi|arc|mi\d{2,3}|gfx\d|rx-?\d)")


def find_gpu(name: str, where: str = "--gpu") -> CatalogueGpu:
    """The card of this name, alias or driver name. InputError with the nearest for others."""
    wanted = _plain(name)
    cards = gpus()
    for card in cards:
        if wanted in map(_plain, (card.name, card.gpu.name, *card.aliases)):
            return card
    if _OTHER_MAKERS.match(wanted):
        raise InputError(
            Problem(
                where=where,
                reason=f"{shown(name)}: the engine chooses by other rules on cards of other makers "
                "than NVIDIA, which kvplan does not know",
                way_out="give what is left for the cache with --kv-mem; attention backends, and "
                "so the layout, may differ",
            )
        )
    by_name = {known: card.name for card in cards for known in (card.name, *card.aliases)}
    near = nearest(name, by_name)
    raise InputError(
        Problem(
            where=where,
            reason=f"no card is called {shown(name)}",
            way_out=(f"did you mean {by_name[near]}? " if near else "")
            + f"known: {', '.join(card.name for card in cards)}; "
            "or give --gpu-mem with what CUDA reports",
        )
    )


def marketing_gpu(size: int) -> CatalogueGpu | None:
    """A card whose marketing size was given as memory (80GB, 80GiB): CUDA has less than that.

    None where the size is no card's marketing size.
    """
    for card in gpus():
        written = (card.marketing_gb * GIB, card.marketing_gb * 10**9)
        if size in written and card.gpu.total_memory_bytes != size:
            return card
    return None


def gpu_with_memory(total_memory_bytes: int) -> Gpu | None:
    """The one kind of card that has this memory, as near as start-ups print it; else None."""
    near = [
        card.gpu
        for card in gpus()
        if abs(card.gpu.total_memory_bytes - total_memory_bytes) <= _SAME_MEMORY
    ]
    return near[0] if len({gpu.capability for gpu in near}) == 1 else None


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").replace("_", "")


def _card(entry: Mapping[str, Any]) -> CatalogueGpu:
    major, minor = entry["capability"]
    return CatalogueGpu(
        name=entry["name"],
        gpu=Gpu(
            name=entry["device_name"],
            capability=(major, minor),
            total_memory_bytes=entry["total_memory_bytes"],
        ),
        marketing_gb=entry["marketing_gb"],
        origin=entry["origin"],
        aliases=tuple(entry.get("aliases", ())),
    )
