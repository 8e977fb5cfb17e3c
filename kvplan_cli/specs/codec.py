"""Layer specs as plain mappings, and back: the form of plan files and conformance vectors.

    {"class": "FullAttentionSpec", "block_size": 16, "num_kv_heads": 8, "head_size": 128,
     "dtype": "bfloat16"}

Fields left out stand at the class's defaults. A fraction is ``{"fraction": [1, 4]}`` or
``"1/4"``, a stride alignment of kernel blocks ``{"MultipleOf": 64}``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from fractions import Fraction
from typing import Any, Final

from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.specs import attention, full, windows
from kvplan_cli.specs.base import (
    HiSparseHotSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    MambaCacheMode,
    MultipleOf,
    SpecError,
)
from kvplan_cli.specs.state import MambaSpec

# Sizes and counts beyond this are mistakes, and would only overflow further on.
_LARGEST: Final = 1 << 50


class _FieldError(ValueError):
    """What a field should have been."""


# AttentionSpec itself is what others share; no layer has it.
SPEC_CLASSES: Final[Mapping[str, type[KVCacheSpec]]] = {
    cls.__name__: cls
    for cls in (
        full.FullAttentionSpec,
        windows.SlidingWindowSpec,
        windows.ChunkedLocalAttentionSpec,
        full.MLAAttentionSpec,
        windows.SlidingWindowMLASpec,
        full.HiddenStateCacheSpec,
        full.RSWASpec,
        full.SinkFullAttentionSpec,
        windows.CircularBufferSpec,
        attention.EncoderOnlyAttentionSpec,
        attention.CrossAttentionSpec,
        MambaSpec,
        HiSparseHotSpec,
        HiSparseResidentSpec,
    )
}


def spec_from_mapping(mapping: Mapping[str, Any], where: str = "spec") -> KVCacheSpec:
    """The spec that a mapping describes. InputError names every wrong field by its path."""
    if not isinstance(mapping, Mapping):
        raise _fault(where, "expected an object with a class and its fields")
    cls = _class_of(mapping, where)
    known = _given_fields(cls)
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key == "class":
            continue
        field = known.get(str(key).replace("-", "_"))
        if field is None:
            problems.append(_unknown_field(str(key), cls, known, where))
            continue
        try:
            values[field.name] = _DECODERS[str(field.type)](value)
        except _FieldError as error:
            problems.append(Problem(where=f"{where}.{key}", reason=f"expected {error}"))
    problems.extend(_missing(known, mapping, where))
    if problems:
        raise InputError(problems)
    try:
        return cls(**values)
    except SpecError as error:
        raise _fault(where, str(error)) from None


def spec_to_mapping(spec: KVCacheSpec, *, all_fields: bool = False) -> dict[str, Any]:
    """The class, and the fields that differ from the class's defaults (or all of them)."""
    mapping: dict[str, Any] = {"class": type(spec).__name__}
    for field in _given_fields(type(spec)).values():
        value = getattr(spec, field.name)
        if all_fields or not _stands_at_default(spec, field):
            mapping[field.name] = _encode(value)
    return mapping


def _given_fields(cls: type[KVCacheSpec]) -> dict[str, Field[Any]]:
    """The fields that a spec is made from; what it works out itself is none."""
    return {field.name: field for field in fields(cls) if field.init}


def _stands_at_default(spec: KVCacheSpec, field: Field[Any]) -> bool:
    value = getattr(spec, field.name)
    if field.name == "head_size_v" and field.default == -1:
        # -1 stands for "as the key" and is resolved when the spec is made.
        return bool(value == getattr(spec, "head_size"))  # noqa: B009
    return field.default is not MISSING and bool(value == field.default)


def _encode(value: Any) -> Any:
    if isinstance(value, DType):
        return value.torch_name
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, MultipleOf):
        return {"MultipleOf": value.base}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _fault(where: str, reason: str, way_out: str | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def _class_of(mapping: Mapping[str, Any], where: str) -> type[KVCacheSpec]:
    name = mapping.get("class")
    known = f"the classes are {', '.join(sorted(SPEC_CLASSES))}"
    if not isinstance(name, str):
        raise _fault(f"{where}.class", "a spec needs its class by name", known)
    if name not in SPEC_CLASSES:
        near = _nearest(name, SPEC_CLASSES)
        raise _fault(f"{where}.class", f"unknown spec class {name[:60]!r}", near or known)
    return SPEC_CLASSES[name]


def _unknown_field(
    key: str, cls: type[KVCacheSpec], known: Mapping[str, Field[Any]], where: str
) -> Problem:
    return Problem(
        where=f"{where}.{key[:60]}",
        reason=f"{cls.__name__} has no such field",
        way_out=_nearest(key, known) or f"its fields are {', '.join(known)}",
    )


def _missing(
    known: Mapping[str, Field[Any]], mapping: Mapping[str, Any], where: str
) -> Iterator[Problem]:
    given = {str(key).replace("-", "_") for key in mapping}
    for name, field in known.items():
        if name not in given and field.default is MISSING and field.default_factory is MISSING:
            yield Problem(where=f"{where}.{name}", reason="the spec needs this field")


def _nearest(name: str, known: Mapping[str, Any]) -> str | None:
    lowered = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name[:100].lower(), lowered, n=1)
    return f"did you mean {lowered[close[0]]}?" if close else None


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _FieldError("an integer")
    if abs(value) > _LARGEST:
        raise _FieldError(f"an integer of at most {_LARGEST}")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _FieldError("true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _FieldError("text")
    return value


def _dtype(value: Any) -> DType:
    try:
        return DType.from_name(_text(value))
    except _FieldError:
        raise _FieldError("an element type by name, such as bfloat16") from None
    except ValueError as error:
        raise _FieldError(f"an element type ({error})") from None


def _member(kind: type[Enum]) -> Callable[[Any], Any]:
    """A decoder of one of ``kind``'s values."""

    def decode(value: Any) -> Enum:
        for member in kind:
            if member.value == value:
                return member
        raise _FieldError(f"one of {', '.join(str(member.value) for member in kind)}")

    return decode


def _fraction(value: Any) -> int | Fraction:
    """A whole number, ``"1/4"`` or ``{"fraction": [1, 4]}``; whole fractions become int."""
    expected = _FieldError('a positive integer, "1/4" or {"fraction": [1, 4]}')
    if isinstance(value, int):
        return _integer(value)
    parts: Any = value.split("/") if isinstance(value, str) else None
    if isinstance(value, Mapping) and set(value) == {"fraction"}:
        parts = value["fraction"]
    if not isinstance(parts, list | tuple) or len(parts) != 2:
        raise expected
    try:
        numbers = [int(part) if isinstance(part, str) else _integer(part) for part in parts]
    except ValueError:
        raise expected from None
    if min(numbers) < 1 or max(numbers) > _LARGEST:
        raise expected
    fraction = Fraction(*numbers)
    return fraction.numerator if fraction.denominator == 1 else fraction


def _alignment(value: Any) -> int | MultipleOf | None:
    if value is None:
        return None
    if isinstance(value, Mapping) and set(value) == {"MultipleOf"}:
        base_tokens = _integer(value["MultipleOf"])
        if base_tokens < 1:
            raise _FieldError('{"MultipleOf": tokens} with at least one token')
        return MultipleOf(base_tokens)
    if isinstance(value, Mapping):
        raise _FieldError('bytes or {"MultipleOf": 64}')
    return _integer(value)


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(s, list | tuple) for s in value):
        raise _FieldError("a list of shapes, such as [[3, 2176], [32, 64, 64]]")
    shapes = tuple(tuple(_integer(size) for size in shape) for shape in value)
    if any(size < 1 for shape in shapes for size in shape):
        raise _FieldError("shapes of positive sizes")
    return shapes


def _dtypes(value: Any) -> tuple[DType, ...]:
    if not isinstance(value, list | tuple):
        raise _FieldError("a list of element types")
    return tuple(_dtype(item) for item in value)


def _nullable(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else decode(value)


# How to read a field, by the annotation it has in its class.
_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "int": _integer,
    "int | None": _nullable(_integer),
    "bool": _boolean,
    "str": _text,
    "str | None": _nullable(_text),
    "DType": _dtype,
    "KVQuantMode": _member(KVQuantMode),
    "SparseCacheRole": _member(full.SparseCacheRole),
    "MambaCacheMode": _member(MambaCacheMode),
    "int | Fraction": _fraction,
    "int | MultipleOf | None": _alignment,
    "tuple[tuple[int, ...], ...]": _shapes,
    "tuple[DType, ...]": _dtypes,
}
