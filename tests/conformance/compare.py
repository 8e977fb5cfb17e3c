"""Differences between what the engine printed and what kvplan plans, each by its path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvplan_cli.grouping.group import KVCacheGroup
from kvplan_cli.planner.results import KVCacheTensor
from kvplan_cli.specs import AttentionSpec, KVCacheSpec, MambaSpec
from kvplan_cli.specs.bundle import GroupSpec, UniformTypeKVCacheSpecs
from kvplan_cli.specs.codec import spec_to_mapping

ABSENT = "<absent>"


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """One line for each place where ``actual`` is not ``expected``; exact, type and all."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        keys = [*expected, *(key for key in actual if key not in expected)]
        return [
            line
            for key in keys
            for line in differences(
                expected.get(key, ABSENT),
                actual.get(key, ABSENT),
                f"{path}.{key}" if path else str(key),
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list):
        lines = []
        if len(expected) != len(actual):
            lines.append(f"{path}: expected {len(expected)} items, got {len(actual)}")
        for index, (want, got) in enumerate(zip(expected, actual, strict=False)):
            lines.extend(differences(want, got, f"{path}[{index}]"))
        return lines
    if type(expected) is not type(actual) or expected != actual:
        return [f"{path}: expected {_short(expected)}, got {_short(actual)}"]
    return []


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


def only(keys: Iterable[str], known: Iterable[str], ignored: Iterable[str], what: str) -> None:
    """Make sure that a vector holds no key that the runner neither compares nor names."""
    unknown = set(keys) - set(known) - set(ignored)
    if unknown:
        raise ValueError(f"{what} has keys that this runner does not know: {sorted(unknown)}")


def group_mapping(group: KVCacheGroup, keys: Iterable[str]) -> dict[str, Any]:
    """A group in the vectors' form, with the keys that the vector has."""
    full: dict[str, Any] = {
        "layer_names": list(group.layer_names),
        "is_eagle_group": group.is_eagle_group,
        "host_resident": group.host_resident,
        "role": group.role.value,
        "enable_kv_transfer": group.enable_kv_transfer,
        "page_size_bytes": group.page_size_bytes,
        "block_size": group.block_size,
        "spec": group.spec,
    }
    return {key: full.get(key, ABSENT) for key in keys}


def groups_mapping(
    groups: Sequence[KVCacheGroup], expected: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Groups in the vectors' form, each with the keys of its counterpart."""
    mapped = []
    for index, group in enumerate(groups):
        want = expected[index] if index < len(expected) else expected[-1] if expected else {}
        mapping = group_mapping(group, want or ("layer_names", "spec"))
        mapping["spec"] = group_spec_mapping(group.spec, want.get("spec", {}))
        mapped.append(mapping)
    return mapped


def group_spec_mapping(spec: GroupSpec, expected: Mapping[str, Any]) -> dict[str, Any]:
    """A group's spec in the vectors' form, bundle or not."""
    if not isinstance(spec, UniformTypeKVCacheSpecs):
        return spec_mapping(spec, expected)
    wanted = expected.get("kv_cache_specs", {})
    layers: Any
    if isinstance(wanted, list):
        layers = spec_runs(spec.kv_cache_specs, wanted)
    else:
        layers = {
            name: spec_mapping(layer, wanted.get(name, {}))
            for name, layer in spec.kv_cache_specs.items()
        }
    derived = {
        "_page_size_bytes": spec.page_size_bytes,
        "_block_stride_alignment_bytes": 1,
        "_prefix_cacheable": spec.prefix_cacheable,
    }
    return {
        "class": "UniformTypeKVCacheSpecs",
        "block_size": spec.block_size,
        "block_stride_alignment": None,
        "dcp_sharded": spec.dcp_sharded,
        "is_draft": False,
        "kv_cache_specs": layers,
    } | {key: value for key, value in derived.items() if key in expected}


def spec_runs(
    layers: Mapping[str, KVCacheSpec], expected: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Runs of neighbours with equal specs, in the vectors' form."""
    runs: list[dict[str, Any]] = []
    last: KVCacheSpec | None = None
    for name, spec in layers.items():
        if last is not None and spec == last and spec.is_draft == last.is_draft:
            runs[-1]["layers"].append(name)
            continue
        last = spec
        shown = expected[min(len(runs), len(expected) - 1)]["spec"] if expected else {}
        runs.append({"layers": [name], "spec": spec_mapping(spec, shown)})
    return runs


def spec_mapping(spec: KVCacheSpec, expected: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's spec with all fields, and the derived figures that the vector shows."""
    mapping = spec_to_mapping(spec, all_fields=True)
    derived: dict[str, Any] = {
        "_page_size_bytes": spec.page_size_bytes,
        "_block_stride_alignment_bytes": spec.stride_alignment_bytes(),
        "_prefix_cacheable": spec.prefix_cacheable,
    }
    if isinstance(spec, MambaSpec):
        mapping |= {"num_heads": 1, "tokens_per_state": -1}
    if isinstance(spec, AttentionSpec | MambaSpec):
        derived |= {
            "_num_heads": spec.num_heads,
            "_num_states": spec.states_per_block,
            "_state_content_size_bytes": spec.state_content_size_bytes,
        }
    if isinstance(spec, AttentionSpec):
        derived["_unpadded_page_size_bytes"] = spec.unpadded_page_size_bytes
    return mapping | {key: value for key, value in derived.items() if key in expected}


def tensor_mapping(tensor: KVCacheTensor) -> dict[str, Any]:
    """A tensor's place in the vectors' form."""
    return {
        "size": tensor.size,
        "layers": list(tensor.layers),
        "layer_stride": tensor.layer_stride,
        "block_stride": tensor.block_stride,
        "offset": tensor.offset,
        "host_resident": tensor.host_resident,
    }
