"""A checkpoint's own tensor list: safetensors headers, else the total of its index."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_object, unreadable
from kvplan_cli.loader.json_text import parse_json
from kvplan_cli.units import MIB
from kvplan_cli.values import dataclass

INDEX_NAME: Final = "model.safetensors.index.json"
_MAX_HEADER_BYTES: Final = 64 * MIB
_MAX_SHARDS: Final = 4096
# Bits an element, by the format's own names. Sub-byte types are packed in rows.
_BITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor of a checkpoint: element type by the format's name, shape, bytes."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where a checkpoint's weights stand.

    shards: the safetensors files that are there. index: the index file, if there is one.
    """

    folder: Path
    shards: tuple[Path, ...] = ()
    index: Path | None = None


def find_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint of a folder; None where it holds neither safetensors nor an index."""
    index = folder / INDEX_NAME
    shards = tuple(sorted(folder.glob("*.safetensors")))[: _MAX_SHARDS + 1]
    # Mistral's single-file copy of the same weights would count them twice.
    doubled = tuple(shard for shard in shards if not shard.name.startswith("consolidated"))
    found = Checkpoint(
        folder=folder, shards=doubled or shards, index=index if index.is_file() else None
    )
    return found if found.shards or found.index else None


def checkpoint_tensors(checkpoint: Checkpoint) -> dict[str, TensorInfo] | None:
    """All tensors by name, from the shards' headers. None where a shard is not at hand.

    InputError for a file that is no safetensors file.
    """
    if len(checkpoint.shards) > _MAX_SHARDS:
        raise _fault(checkpoint.folder, f"more than {_MAX_SHARDS} safetensors files")
    listed = _weight_map(checkpoint.index) if checkpoint.index else {}
    present = {shard.name for shard in checkpoint.shards}
    if not present or not set(listed.values()) <= present:
        return None
    tensors: dict[str, TensorInfo] = {}
    for shard in checkpoint.shards:
        if not listed or shard.name in listed.values():
            tensors.update(_header(shard))
    return tensors


def checkpoint_bytes(checkpoint: Checkpoint) -> int | None:
    """Bytes of all tensors: from the headers, else the index's total. None if it has none."""
    tensors = checkpoint_tensors(checkpoint)
    if tensors is not None:
        return sum(tensor.size_bytes for tensor in tensors.values())
    return index_bytes(checkpoint)


def index_bytes(checkpoint: Checkpoint) -> int | None:
    """The total that the checkpoint's index states; None if there is none."""
    if checkpoint.index is None:
        return None
    total = read_object(checkpoint.index).get("metadata", {})
    size = total.get("total_size") if isinstance(total, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def index_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The tensors that the checkpoint's index lists; none without an index."""
    return () if checkpoint.index is None else tuple(_weight_map(checkpoint.index))


def _weight_map(index: Path) -> dict[str, str]:
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise _fault(index, "an index without a weight_map")
    return {str(tensor): str(shard) for tensor, shard in weight_map.items()}


def _header(shard: Path) -> dict[str, TensorInfo]:
    """The tensors of one safetensors file: eight bytes of length, then JSON."""
    try:
        size = shard.stat().st_size
        with shard.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            if not 2 <= length <= min(_MAX_HEADER_BYTES, size - 8):
                raise _fault(shard, "not a safetensors file: its header's length is impossible")
            text = file.read(length).decode()
    except UnicodeDecodeError:
        raise _fault(shard, "not a safetensors file: its header is not text") from None
    except OSError as error:
        raise unreadable(shard, error) from None
    header = parse_json(text, place(shard))
    if not isinstance(header, dict):
        raise _fault(shard, "not a safetensors file: its header is no object")
    return {
        name: _tensor(entry, name, shard)
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _tensor(entry: Any, name: str, shard: Path) -> TensorInfo:
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    shape = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(dtype, str) or dtype not in _BITS or not isinstance(shape, list):
        raise _fault(shard, f"tensor {name[:80]!r} has no known dtype and shape")
    if not all(isinstance(size, int) and 0 <= size < 1 << 48 for size in shape):
        raise _fault(shard, f"tensor {name[:80]!r} has an impossible shape")
    return TensorInfo(dtype=dtype, shape=tuple(shape), size_bytes=prod(shape) * _BITS[dtype] // 8)


def tensor_info(dtype: str, shape: Sequence[int]) -> TensorInfo | None:
    """A tensor's facts from its type and shape; None for a type that is not known."""
    if dtype not in _BITS:
        return None
    return TensorInfo(dtype=dtype, shape=tuple(shape), size_bytes=prod(shape) * _BITS[dtype] // 8)


def _fault(path: Path, reason: str) -> InputError:
    return InputError(Problem(where=place(path), reason=reason))
