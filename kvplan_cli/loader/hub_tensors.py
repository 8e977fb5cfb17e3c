"""The tensors of a hub repository, by ranged requests through the hub library."""

from __future__ import annotations

from kvplan_cli.loader.checkpoint import TensorInfo, tensor_info


def hub_tensors(hub_id: str, revision: str | None) -> dict[str, TensorInfo] | None:
    """All tensors by name, from the headers of the repository's safetensors files.

    The library reads a few kilobytes of each file, with its own token, endpoint and offline
    rules. None where the headers can't be had or hold a type that is not known: the index or
    the count tells then.
    """
    # Foreign code over a network: every failure is one ending, headers that can't be had.
    try:
        from huggingface_hub import get_safetensors_metadata

        metadata = get_safetensors_metadata(hub_id, revision=revision)
        entries = [
            (name, str(info.dtype), tuple(int(size) for size in info.shape))
            for file in metadata.files_metadata.values()
            for name, info in file.tensors.items()
        ]
    except Exception:
        return None
    tensors: dict[str, TensorInfo] = {}
    for name, dtype, shape in entries:
        tensor = tensor_info(dtype, shape)
        if tensor is None:
            return None
        tensors[name] = tensor
    return tensors or None
