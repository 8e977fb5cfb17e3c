"""What is known of each of the engine's architectures: planned, by how many proofs, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from kvplan_cli.loader.catalogue import configs_folder
from kvplan_cli.loader.documents import read_object
from kvplan_cli.results import ArchitectureSupport, Support

_FILE: Final = "architectures.json"


def architecture_support() -> tuple[ArchitectureSupport, ...]:
    """All architectures of the engine's registry, by part and name."""
    # A plan asks for proofs alone.
    from kvplan_cli.models.drafters.layers import known_drafters
    from kvplan_cli.models.registry import known_architectures

    known = {traits.architecture for traits in known_architectures()} | known_drafters()
    parts = _parts(configs_folder() / _FILE)
    return tuple(
        _support(name, part, vectors, known)
        for part, names in parts.items()
        for name, vectors in names.items()
    )


def proofs(architecture: str) -> int | None:
    """Vectors that prove an architecture; None for one outside the engine's registry."""
    parts = _parts(configs_folder() / _FILE)
    counts = [names[architecture] for names in parts.values() if architecture in names]
    return max(counts, default=None)


@cache
def _parts(path: Path) -> Mapping[str, Mapping[str, int]]:
    """Part to architecture to its proofs; many plans of one call ask for it."""
    parts: Mapping[str, Mapping[str, int]] = read_object(path)["parts"]
    return parts


# Names of the registry that the engine puts a prefix to before it looks, whatever the method.
_ALIASES = frozenset({"MuseGlimmerAssistantModel", "PEagleDraftModel", "Qwen3XPressModel"})


def _alias(name: str) -> str | None:
    return "no method of the engine asks for it by this name" if name in _ALIASES else None


def _support(name: str, part: str, vectors: int, known: set[str]) -> ArchitectureSupport:
    from kvplan_cli.models.other_families import OTHER_FAMILIES

    reason = None
    if name in known:
        support = Support.EXACT if vectors else Support.UNPROVED
    else:
        family = _alias(name) if part == "drafter" else OTHER_FAMILIES.get(name)
        support, reason = Support.REFUSED, family or "kvplan has no row for it"
    return ArchitectureSupport(
        name=name, part=part, support=support, vectors=vectors, reason=reason
    )
