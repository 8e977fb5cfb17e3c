"""Groups and their layers' specs, in the document's form."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.planner.results import KVCacheGroup, WorkerPlan
from kvplan_cli.report.document import GroupDocument, LayerSpecDocument
from kvplan_cli.specs import AttentionSpec, KVCacheSpec, MambaSpec
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs


def group_documents(
    groups: Sequence[KVCacheGroup], workers: Sequence[WorkerPlan]
) -> tuple[GroupDocument, ...]:
    """The model's groups; blocks a request from ``workers``, which may be empty."""
    blocks = iter(blocks_by_device_group(workers))
    return tuple(
        _group(index, group, None if group.host_resident else next(blocks, None))
        for index, group in enumerate(groups)
    )


def blocks_by_device_group(workers: Sequence[WorkerPlan]) -> list[int]:
    """Blocks a request by device group; a worker without layers of a group says 0 for it."""
    rows = [worker.blocks_per_request_by_group for worker in workers]
    width = max((len(row) for row in rows), default=0)
    return [max(row[index] for row in rows if len(row) > index) for index in range(width)]


def _group(index: int, group: KVCacheGroup, blocks_per_request: int | None) -> GroupDocument:
    return GroupDocument(
        group=index,
        kind=type(group.spec).__name__,
        role=group.role.value,
        holds_drafter_layers=group.is_eagle_group,
        host_resident=group.host_resident,
        num_layers=len(group.layer_names),
        layer_names=group.layer_names,
        block_size_tokens=group.block_size,
        page_size_bytes=group.page_size_bytes,
        blocks_per_request=blocks_per_request,
        layer_specs=tuple(_layer_spec(spec, names) for spec, names in _distinct_specs(group)),
    )


def _distinct_specs(group: KVCacheGroup) -> list[tuple[KVCacheSpec, tuple[str, ...]]]:
    """The specs of a group's layers with the layers of each, in order of appearance."""
    if not isinstance(group.spec, UniformTypeKVCacheSpecs):
        return [(group.spec, group.layer_names)]
    names: dict[KVCacheSpec, list[str]] = {}
    for name, spec in group.spec.kv_cache_specs.items():
        names.setdefault(spec, []).append(name)
    return [(spec, tuple(layers)) for spec, layers in names.items()]


def _layer_spec(spec: KVCacheSpec, names: tuple[str, ...]) -> LayerSpecDocument:
    attention = spec if isinstance(spec, AttentionSpec) else None
    state = spec if isinstance(spec, MambaSpec) else None
    return LayerSpecDocument(
        kind=type(spec).__name__,
        num_layers=len(names),
        layer_names=names,
        block_size_tokens=spec.block_size,
        page_size_bytes=spec.page_size_bytes,
        page_padding_bytes=_padding(spec),
        dtype=attention.dtype.torch_name if attention else None,
        num_kv_heads_per_rank=attention.num_kv_heads if attention else None,
        head_size_elements=attention.head_size if attention else None,
        head_size_v_elements=attention.head_size_v if attention else None,
        sliding_window_tokens=getattr(spec, "sliding_window", None),
        attention_chunk_size_tokens=getattr(spec, "attention_chunk_size", None),
        kv_quant_mode=attention.kv_quant_mode.value if attention else None,
        state_shapes=state.shapes if state else None,
        state_dtypes=tuple(dtype.torch_name for dtype in state.dtypes) if state else None,
    )


def _padding(spec: KVCacheSpec) -> int:
    if isinstance(spec, AttentionSpec):
        return spec.page_size_bytes - spec.unpadded_page_size_bytes
    if isinstance(spec, MambaSpec):
        return spec.page_size_bytes - spec.state_content_size_bytes
    return 0
