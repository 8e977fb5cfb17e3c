"""Specs and settings of the engine as the vectors' JSON, and back."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import torch
from vllm.v1 import kv_cache_interface as interface
from vllm.v1.attention.backend import MultipleOf

# Derived figures that the vectors show beside a spec's fields.
_DERIVED = ("unpadded_page_size_bytes", "state_content_size_bytes", "num_heads", "num_states")


def plain(value: Any) -> Any:
    """A value of the engine as JSON has it."""
    for kind, shown in _SHOWN.items():
        if isinstance(value, kind):
            return shown(value)
    if value is None or isinstance(value, int | float | str):
        return value
    return repr(value)


def _plain_items(values: Iterable[Any]) -> list[Any]:
    return [plain(value) for value in values]


def _plain_mapping(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): plain(value) for key, value in values.items()}


_SHOWN: dict[type, Any] = {
    torch.dtype: lambda dtype: str(dtype).removeprefix("torch."),
    enum.Enum: lambda member: member.value if isinstance(member.value, str) else member.name,
    Fraction: lambda fraction: {"fraction": [fraction.numerator, fraction.denominator]},
    MultipleOf: lambda multiple: {"MultipleOf": multiple.base},
    tuple: _plain_items,
    list: _plain_items,
    dict: _plain_mapping,
}


def spec_json(spec: Any) -> dict[str, Any]:
    """A spec with its class, all fields, and the figures derived from them."""
    bundle = isinstance(spec, interface.UniformTypeKVCacheSpecs)
    shown: dict[str, Any] = {"class": type(spec).__name__}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name == "kv_cache_specs":
            shown[field.name] = {name: spec_json(layer) for name, layer in value.items()}
        else:
            shown[field.name] = plain(value)
    shown["_page_size_bytes"] = spec.page_size_bytes
    for name in _DERIVED:
        value = None if bundle else _derived(spec, name)
        if value is not None:
            shown[f"_{name}"] = plain(value)
    alignment = _derived(spec, "get_block_stride_alignment")
    if alignment is not None:
        shown["_block_stride_alignment_bytes"] = alignment()
    shown["_prefix_cacheable"] = _derived(spec, "prefix_cacheable")
    return shown


def _derived(spec: Any, name: str) -> Any:
    """A derived figure, or None where this kind of spec (or this release) has none."""
    try:
        return getattr(spec, name, None)
    except (AssertionError, NotImplementedError, TypeError, ValueError, ZeroDivisionError):
        return None


def _lists(items: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(item) for item in items)


def _member(kind: type[enum.Enum]) -> Any:
    def member(value: Any) -> Any:
        known = isinstance(value, str) and value in kind.__members__
        return kind[value] if known else kind(value)

    return member


_READERS: dict[str, Any] = {
    "dtype": lambda name: getattr(torch, name),
    "dtypes": lambda names: tuple(getattr(torch, name) for name in names),
    "shapes": _lists,
    "kv_quant_mode": _member(interface.KVQuantMode),
    "mamba_type": _member(interface.MambaAttentionBackendEnum),
    "cache_role": lambda value: interface.SparseCacheRole(value),
}


# Marks of newer releases: an older one that lacks them still stores the layer the same way.
_MARKS = ("is_draft", "topk_buffer_width")


def spec_of(shown: Mapping[str, Any]) -> Any:
    """The engine's spec of a vector's mapping.

    Raises: ValueError where the spec says something that this release cannot.
    """
    given = {key: value for key, value in shown.items() if not key.startswith("_")}
    cls = getattr(interface, given.pop("class"))
    if cls is interface.UniformTypeKVCacheSpecs:
        layers = {name: spec_of(layer) for name, layer in given.pop("kv_cache_specs").items()}
        return cls(kv_cache_specs=layers, **given)
    known = {field.name: field for field in dataclasses.fields(cls)}
    lacking = given.keys() - known.keys() - set(_MARKS)
    unknown = sorted(name for name in lacking if given[name])
    if unknown:
        raise ValueError(f"{cls.__name__} of this release has no {', '.join(unknown)}")
    names = [name for name in given if name in known and known[name].init]
    return cls(**{name: _read(name, given[name]) for name in names})


def _read(name: str, value: Any) -> Any:
    if name in _READERS:
        return _READERS[name](value)
    if isinstance(value, Mapping) and "fraction" in value:
        return Fraction(*value["fraction"])
    if isinstance(value, Mapping) and "MultipleOf" in value:
        return MultipleOf(value["MultipleOf"])
    return value


def layers_of(shown: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Layer name to the engine's spec, in the given order."""
    return {name: spec_of(fields) for name, fields in shown.items()}


def group_json(group: Any) -> dict[str, Any]:
    """A group with its spec."""
    return {
        "layer_names": list(group.layer_names),
        "is_eagle_group": group.is_eagle_group,
        "host_resident": group.host_resident,
        "role": group.role.value,
        "spec": spec_json(group.kv_cache_spec),
        "page_size_bytes": group.kv_cache_spec.page_size_bytes,
        "block_size": group.kv_cache_spec.block_size,
    }


def tensor_json(tensor: Any) -> dict[str, Any]:
    """Where a run of layers stands in the allocation."""
    names = ("size", "layers", "layer_stride", "block_stride", "offset", "host_resident")
    return {name: getattr(tensor, name) for name in names}


def without_derived(shown: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as model cases keep it: of the derived figures the page alone."""
    return {
        key: {name: without_derived(layer) for name, layer in value.items()}
        if key == "kv_cache_specs"
        else value
        for key, value in shown.items()
        if not key.startswith("_") or key == "_page_size_bytes"
    }


def runs(layers: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring layers with equal specs drawn together."""
    drawn: list[dict[str, Any]] = []
    for name, shown in layers.items():
        spec = without_derived(shown)
        if drawn and drawn[-1]["spec"] == spec:
            drawn[-1]["layers"].append(name)
        else:
            drawn.append({"spec": spec, "layers": [name]})
    return drawn
