"""What a user knows of memory."""

from __future__ import annotations

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
