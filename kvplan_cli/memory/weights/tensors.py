"""Tensors of one rank, and the bytes that they take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kvplan_cli.units import MIB, round_up

FLOAT32: Final = 4
INT32: Final = 4
INT64: Final = 8
BYTE: Final = 1


class Tensor(NamedTuple):
    """A tensor of one rank, as the engine's module holds it right after construction.

    name: the module's own name of it. elements: on this rank, after sharding and padding.
    itemsize: bytes an element of its storage (packed 4-bit weights are stored in whole bytes).
    on_host: it stands in the host's memory, where the card reads it.
    """

    name: str
    elements: int
    itemsize: int
    on_host: bool = False

    @property
    def nbytes(self) -> int:
        return self.elements * self.itemsize


Tensors = tuple[Tensor, ...]


def on_card(tensors: Tensors) -> Tensors:
    """Those that take the card's memory."""
    return tuple(tensor for tensor in tensors if not tensor.on_host)


def total_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the tensors themselves."""
    return sum(tensor.nbytes for tensor in tensors)


# torch's caching allocator: segments of 2 MiB; a request of 10 MiB or more gets its own
# segment, whose tail is kept whole when it is too small to be split off.
_SEGMENT: Final = 2 * MIB
_OWN_SEGMENT: Final = 10 * MIB
_LARGEST_KEPT_TAIL: Final = 1 * MIB
_ALWAYS_ROUNDED: Final = 20 * MIB
_ALIGNMENT: Final = 512


def allocated_bytes(tensors: Iterable[Tensor], *, splits_large: bool = False) -> int:
    """Bytes that the allocator books for the tensors: its own rounding included.

    splits_large: as releases up to 0.19 start it, where no tail above 1 MiB is kept.
    """
    return sum(_booked(tensor.nbytes, splits_large=splits_large) for tensor in tensors)


def _booked(nbytes: int, *, splits_large: bool) -> int:
    aligned = round_up(nbytes, _ALIGNMENT)
    if aligned < _OWN_SEGMENT:
        return aligned
    segment = round_up(aligned, _SEGMENT)
    always = aligned >= _ALWAYS_ROUNDED and not splits_large
    keeps_tail = always or segment - aligned <= _LARGEST_KEPT_TAIL
    return segment if keeps_tail else aligned
