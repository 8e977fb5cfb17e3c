"""What MODEL names: a file, a folder, a bundled model or a repository of the hub.

In this order, and the first that applies counts:
1. an existing path: a config.json (or a catalogue entry), or a folder that holds one;
2. a catalogue name or alias, in any case;
3. ``org/name``: a repository of the hub.
So a folder ``qwen3-8b`` wins over the bundled model of that name; write the name in capitals
or from elsewhere to mean the bundled one. Text that can only be a path (``./x``, ``x.json``)
never goes to the hub.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.catalogue import (
    CatalogueModel,
    catalogue_model,
    find_model,
    model_names,
    nearest_model,
)
from kvplan_cli.loader.checkpoint import find_checkpoint
from kvplan_cli.loader.documents import place, read_object, unreadable
from kvplan_cli.loader.folder import (
    CONFIG_NAME,
    config_of,
    is_model_config,
    read_extra_files,
    read_folder,
)
from kvplan_cli.loader.mistral_format import PARAMS_NAME
from kvplan_cli.loader.model_source import ModelSource, Origin, OriginKind
from kvplan_cli.loader.problems import nearest, printable, shown

_PATH_SUFFIXES: Final = (".json", ".yaml", ".yml", ".safetensors", ".gguf", ".bin", ".pt", ".log")
_WEIGHT_SUFFIXES: Final = (".safetensors", ".gguf", ".bin", ".pt")
_SHOWN_NAMES: Final = 6
_SEARCHED_NAMES: Final = 2000
_FORMS: Final = (
    "MODEL is a config.json, a folder that holds one, a plan or serve YAML, a bundled name or "
    "org/name on the hub"
)


def resolve_model(
    reference: str, *, revision: str | None = None, where: str = "MODEL"
) -> ModelSource:
    """The model that a text names. where: the argument or key that named it.

    Raises InputError (no such file or name, a wrong file), UnplannableError (the hub's facts
    can't be had).
    """
    if not reference.strip():
        raise _fault(where, "no model is named", _FORMS)
    path = existing_path(reference, where)
    if path is not None:
        return _from_path(path, where)
    if is_path_like(reference):
        raise missing_path(reference, where)
    bundled = find_model(reference)
    if bundled is not None:
        return from_catalogue(bundled)
    # The hub's rules are asked for only now: their module costs nothing for a local file.
    from kvplan_cli.loader.hub import HUB_ID, read_hub

    if HUB_ID.fullmatch(reference):
        return read_hub(reference, revision)
    raise _unknown_name(reference, where)


def existing_path(reference: str, where: str, base: Path | None = None) -> Path | None:
    """The path that a text names, if it is there: beside ``base`` first, then from here."""
    try:
        path = Path(os.path.expanduser(reference))
        beside = base / path if base is not None else path
        return next((found for found in (beside, path) if found.exists()), None)
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, RuntimeError):
            raise _fault(where, f"{shown(reference)}: no such home folder", None) from None
        raise unreadable(Path(reference[:100]), error) from None


def is_path_like(reference: str) -> bool:
    """Whether a text can only mean a path, though nothing is there."""
    return (
        reference.startswith(("/", "./", "../", "~", ".\\", "..\\"))
        or reference.lower().endswith(_PATH_SUFFIXES)
        or reference.count("/") > 1
        or "\\" in reference
    )


def missing_path(reference: str, where: str) -> InputError:
    """The error for a path that is not there, with the nearest name in its folder."""
    path = Path(reference)
    try:
        entries = islice(path.parent.expanduser().iterdir(), _SEARCHED_NAMES)
        names = [entry.name for entry in entries]
    except (OSError, RuntimeError):
        names = []
    near = nearest(path.name, names)
    way_out = f"did you mean {path.with_name(near)}?" if near else _FORMS
    return _fault(where, f"no such file: {printable(reference, 200)}", way_out)


def from_catalogue(model: CatalogueModel) -> ModelSource:
    """A bundled model as a source."""
    return ModelSource(
        name=model.name,
        config=model.config,
        origin=Origin(
            kind=OriginKind.CATALOGUE, place=model.name, detail=f"{model.hub_id}; {model.origin}"
        ),
        extra_files=model.extra_files,
        hub_id=model.hub_id,
    )


def from_document(document: Mapping[str, Any], path: Path) -> ModelSource | None:
    """The model of a file's content; None where that is neither a config nor an entry."""
    if isinstance(document.get("config"), dict) and "hub_id" in document:
        return from_catalogue(catalogue_model(document, place(path)))
    if path.name == PARAMS_NAME:
        document = config_of(dict(document), path)
    if not is_model_config(document):
        return None
    # Only a file that bears the name belongs to what stands beside it.
    belongs = path.name in (CONFIG_NAME, PARAMS_NAME)
    return ModelSource(
        name=path.resolve().parent.name if belongs else path.stem,
        config=document,
        origin=Origin(kind=OriginKind.FILE, place=place(path)),
        extra_files=read_extra_files(path) if belongs else {},
        checkpoint=find_checkpoint(path.parent) if belongs else None,
    )


def not_a_model_file(path: Path) -> InputError | None:
    """The error for files that people give in place of a config; None for others."""
    if path.suffix.lower() in _WEIGHT_SUFFIXES:
        return _fault(place(path), "a file of weights, not a config", "give its config.json")
    return None


def _from_path(path: Path, where: str) -> ModelSource:
    if path.is_dir():
        return read_folder(path)
    wrong = not_a_model_file(path)
    if wrong is not None:
        raise wrong
    source = from_document(read_object(path), path)
    if source is None:
        raise _fault(
            f"{where}: {place(path)}",
            "neither architectures nor model_type: not a model's config",
            "a plan file names its model by a config, not by another plan",
        )
    return source


def _unknown_name(reference: str, where: str) -> InputError:
    near = nearest_model(reference)
    alike = [name for name in model_names() if reference.lower() in name][:_SHOWN_NAMES]
    hint = f"did you mean {near}? " if near else ""
    if len(alike) > 1:
        hint = f"bundled are {', '.join(alike)}; "
    return _fault(where, f"no model is called {shown(reference)}", hint + _FORMS)


def _fault(where: str, reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
