"""One value of a document by its path: ``plan.num_blocks``, ``groups.0.layer_names``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.report.document import FitDocument
from kvplan_cli.report.json_form import plain
from kvplan_cli.report.schema import hints, is_document, strip

FLAG = "--get"


def get_path(document: object, path: str) -> Any:
    """The value at ``path``: keys and list indexes, joined by dots (``[0]`` works as well).

    A path that the contract has is null beneath a null: ``plan.num_blocks`` of a refusal.
    Raises: InputError with the nearest path where the contract has no such path.
    """
    check_path(type(document), path)
    value: Any = document
    seen = ""
    for step in _steps(path):
        if value is None:
            return None
        value = _step(value, step, seen)
        seen = f"{seen}.{step}" if seen else step
    return plain(value)


def check_path(document_type: type, path: str) -> None:
    """InputError with the nearest path where the contract has no such path."""
    hint: Any = document_type
    for step in _steps(path):
        beneath = _beneath(hint, step)
        if beneath is None:
            raise _unknown(f"there is no {path!r} in the document", _nearest(document_type, path))
        hint = beneath


def bare(value: object) -> str:
    """A value as a script wants it: strings bare, lists and objects as one line of JSON."""
    return value if isinstance(value, str) else json.dumps(value, allow_nan=False)


def known_paths(document_type: type = FitDocument) -> tuple[str, ...]:
    """All paths of the contract; ``0`` stands for any index of a list."""
    return tuple(_paths_beneath(document_type, ""))


def _steps(path: str) -> list[str]:
    steps = path.strip().replace("[", ".").replace("]", "").split(".")
    if not all(steps):
        raise _unknown(f"{path!r} is not a path", "keys joined by dots, as in plan.num_blocks")
    return steps


def _beneath(hint: Any, step: str) -> Any | None:
    """The type beneath ``step``; None where the contract has nothing there."""
    for part in _members(hint):
        origin = get_origin(part)
        if is_document(part):
            return strip(hints(part)[step])[0] if step in hints(part) else None
        if origin is tuple and step.removeprefix("-").isdecimal():
            return get_args(part)[0]
        if _is_mapping(origin):
            return get_args(part)[1]
    return None


def _members(hint: Any) -> tuple[Any, ...]:
    """The types of a union without null; the type itself otherwise."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(part for part in get_args(hint) if part is not NoneType)
    return (hint,)


def _is_mapping(origin: object) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _step(value: Any, step: str, seen: str) -> Any:
    if isinstance(value, Mapping):
        if step not in value:
            raise _unknown(f"{seen} has no {step!r}", f"it has: {', '.join(value) or 'nothing'}")
        return value[step]
    if not is_document(type(value)):
        index = int(step)
        if not -len(value) <= index < len(value):
            raise _unknown(f"{seen} has {len(value)} entries, there is no {step}", None)
        return value[index]
    return getattr(value, step)


def _paths_beneath(hint: Any, prefix: str) -> Iterator[str]:
    for part in _members(hint):
        if is_document(part):
            for name, beneath in hints(part).items():
                path = f"{prefix}.{name}" if prefix else name
                yield path
                yield from _paths_beneath(strip(beneath)[0], path)
        elif get_origin(part) is tuple:
            yield from _paths_beneath(get_args(part)[0], f"{prefix}.0")


def _nearest(document_type: type, path: str) -> str:
    from difflib import get_close_matches

    known = known_paths(document_type)
    last = _steps(path)[-1]
    same_key = [name for name in known if name.rsplit(".", 1)[-1] == last]
    nearest = (
        same_key
        or get_close_matches(path, known, n=2, cutoff=0.7)
        or [name for name in known if name.rsplit(".", 1)[-1] in _close_keys(last, known)]
    )
    if nearest:
        return f"did you mean {' or '.join(nearest[:3])}?"
    return "--json shows the whole document"


def _close_keys(key: str, known: tuple[str, ...]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(key, {name.rsplit(".", 1)[-1] for name in known}, n=1)


def _unknown(reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=FLAG, reason=reason, way_out=way_out))
