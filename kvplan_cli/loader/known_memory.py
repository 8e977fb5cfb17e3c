"""What a user knows of memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMemory:
    """What is known of memory. None and empty: not given.

    gpu: a card's name. gpu_mem_bytes: what the device has. kv_mem_bytes: available for the
    KV cache, one value for all ranks or several. weights_bytes: of a rank, likewise. from_log:
    a start-up log. profile: what was measured before, by name or file.
    """

    gpu: str | None = None
    gpu_mem_bytes: int | None = None
    kv_mem_bytes: tuple[int, ...] = ()
    weights_bytes: tuple[int, ...] = ()
    from_log: str | None = None
    profile: str | None = None

    def over(self, below: KnownMemory) -> KnownMemory:
        """This over what is known below it: a new kind of budget drops the other kind.

        Memory for the cache says all that a card, weights and measurements would; another card
        or size drops it, and what was measured on the card below.
        """
        if self.kv_mem_bytes:
            return replace(self, gpu=self.gpu or below.gpu)
        new_card = self.gpu is not None or self.gpu_mem_bytes is not None
        if new_card:
            below = replace(below, kv_mem_bytes=(), from_log=None, profile=None)
        if self.gpu is not None:
            below = replace(below, gpu_mem_bytes=None)
        return KnownMemory(
            gpu=self.gpu or below.gpu,
            gpu_mem_bytes=self.gpu_mem_bytes or below.gpu_mem_bytes,
            kv_mem_bytes=below.kv_mem_bytes,
            weights_bytes=self.weights_bytes or below.weights_bytes,
            from_log=self.from_log or (None if self.profile else below.from_log),
            profile=self.profile or (None if self.from_log else below.profile),
        )

    def without(self, keys: Iterable[str]) -> KnownMemory:
        """The same without what these keys of a plan file give."""
        nothing = KnownMemory()
        names = [MEMORY_FIELDS[key] for key in keys if key in MEMORY_FIELDS]
        return replace(self, **{name: getattr(nothing, name) for name in names})


# A plan file's key to the field that holds it.
MEMORY_FIELDS: Final[Mapping[str, str]] = {
    "gpu": "gpu",
    "gpu-mem": "gpu_mem_bytes",
    "kv-mem": "kv_mem_bytes",
    "weights": "weights_bytes",
    "from-log": "from_log",
    "profile": "profile",
}
