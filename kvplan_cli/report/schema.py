"""The JSON schema of a document, made from its types and the texts beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from kvplan_cli.report.document import FitDocument

Schema = dict[str, Any]

_SCALARS: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


@cache
def hints(document_type: type) -> Mapping[str, Any]:
    """The types of a document's keys, with the texts beside them."""
    return get_type_hints(document_type, include_extras=True)


def strip(hint: object) -> tuple[Any, str]:
    """A type without its text, and the text."""
    if get_origin(hint) is Annotated:
        bare, text = get_args(hint)[:2]
        return bare, str(text)
    return hint, ""


def is_document(hint: object) -> bool:
    """Whether a type is one of the contract's own: a named tuple."""
    return isinstance(hint, type) and hasattr(hint, "_fields")


def json_schema(document_type: type = FitDocument) -> Schema:
    """A JSON schema (2020-12) that accepts exactly the documents of ``document_type``."""
    definitions: dict[str, Schema] = {}
    root = _object(document_type, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": document_type.__name__,
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _object(document_type: type, definitions: dict[str, Schema]) -> Schema:
    properties = {}
    for name, hint in hints(document_type).items():
        bare, text = strip(hint)
        properties[name] = {**_schema(bare, definitions), "description": text}
    return {
        "type": "object",
        "description": (document_type.__doc__ or "").strip().splitlines()[0],
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _schema(hint: Any, definitions: dict[str, Schema]) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if origin in (Union, UnionType):
        return _union([_schema(part, definitions) for part in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if is_document(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # in place first: a type may hold itself
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    raise TypeError(f"no JSON schema for {hint!r}")


def _union(parts: list[Schema]) -> Schema:
    if all(set(part) == {"type"} for part in parts):
        return {"type": [part["type"] for part in parts]}
    return {"anyOf": parts}
