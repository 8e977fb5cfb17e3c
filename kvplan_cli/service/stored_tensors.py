"""The tensors of a model's checkpoint, wherever it stands."""

from __future__ import annotations

from kvplan_cli.loader.checkpoint import checkpoint_tensors
from kvplan_cli.loader.hub_tensors import hub_tensors
from kvplan_cli.loader.model_source import ModelSource, OriginKind
from kvplan_cli.memory.weights.stored import StoredTensor


def stored_tensors(source: ModelSource) -> tuple[StoredTensor, ...] | None:
    """From files at hand, or the hub's headers; None where neither is.

    InputError for files that are no checkpoint.
    """
    found = checkpoint_tensors(source.checkpoint) if source.checkpoint is not None else None
    if found is None and source.origin.kind is OriginKind.HUB and source.hub_revision is not None:
        found = hub_tensors(source.name, source.hub_revision)
    if found is None:
        return None
    return tuple(
        StoredTensor(name=name, dtype=info.dtype, shape=info.shape, size_bytes=info.size_bytes)
        for name, info in found.items()
    )
