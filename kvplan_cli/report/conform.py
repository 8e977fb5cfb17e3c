"""Whether a value read from a file has the shape of a document."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from kvplan_cli.report.schema import hints, is_document, strip


def fault_of(document_type: type, value: object) -> str | None:
    """The path of the first part that is of another kind than the contract says; else None.

    Keys may be missing or unknown: another version of the program may have known fewer or more.
    """
    return _fault(document_type, value, "")


def _fault(hint: Any, value: object, path: str) -> str | None:
    origin, arguments = get_origin(hint), get_args(hint)
    here = path or "the document"
    if origin in (Union, UnionType):
        faults = [_fault(part, value, path) for part in arguments]
        return None if None in faults else max(filter(None, faults), key=len)
    if origin is tuple and isinstance(value, list):
        parts = (_fault(arguments[0], each, f"{path}[{i}]") for i, each in enumerate(value))
        return next(filter(None, parts), None)
    if is_document(hint) and isinstance(value, Mapping):
        kinds = {key: strip(part)[0] for key, part in hints(hint).items()}
        return _in_mapping(value, kinds, path)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return _in_mapping(value, dict.fromkeys(value, arguments[1]), path)
    if origin in (None, Literal) and not is_document(hint) and _is_scalar(hint, value):
        return None
    return here


def _in_mapping(value: Mapping[Any, Any], kinds: Mapping[str, Any], path: str) -> str | None:
    parts = (
        _fault(kind, value[key], f"{path}.{key}" if path else key)
        for key, kind in kinds.items()
        if key in value
    )
    return next(filter(None, parts), None)


def _is_scalar(hint: Any, value: object) -> bool:
    if get_origin(hint) is Literal:
        return type(value) in {type(each) for each in get_args(hint)}
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is NoneType else hint)
