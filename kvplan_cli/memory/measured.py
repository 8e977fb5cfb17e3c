"""Memory as a start of the engine measured it, in place of estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kvplan_cli.memory.budget import Estimate
from kvplan_cli.values import dataclass

AVAILABLE: Final = "available"
WEIGHTS: Final = "weights"
TOTAL: Final = "total"
# Another value of these is another model on the rank: nothing that was measured holds.
FIXED_FLAGS: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "prefill_context_parallel_size",
    "enable_expert_parallel",
    "all2all_backend",
    "dtype",
    "quantization",
    "speculative_config",
    "language_model_only",
    "limit_mm_per_prompt",
    "skip_mm_profiling",
    "runner",
    "enable_lora",
    "max_loras",
    "max_lora_rank",
    "lora_dtype",
    "fully_sharded_loras",
)
# What the model of the memory moves by the difference of two ladders.
MOVED_FLAGS: Final = (
    "gpu_memory_utilization",
    "max_num_batched_tokens",
    "max_num_seqs",
    "performance_mode",
    "enforce_eager",
    "optimization_level",
    "compilation_config",
)
# What a start may tell of a rank, in the order in which it is shown.
MEASURED_NAMES: Final = (
    AVAILABLE,
    WEIGHTS,
    "consumed",
    "activation",
    "non_torch",
    "graphs",
    "graphs_estimated",
    "free",
    TOTAL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRank:
    """What one process told. Bytes, each with its line in the note.

    name: of the process, empty where the log tells none. stage: its pipeline stage, None where
    that is not told.
    """

    name: str
    stage: int | None
    sizes: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMemory:
    """What one start told.

    origin: the log's or the profile's name. release: of the engine that started. flags: the
    settings that the start told, by the engine's Python names; it was measured under them.
    tells_all_flags: what is not among them was at its default.
    """

    origin: str
    release: str | None
    ranks: tuple[MeasuredRank, ...]
    flags: Mapping[str, Any] = field(default_factory=dict)
    tells_all_flags: bool = False

    def of_stage(self, name: str, stage: int, stages: int) -> tuple[Estimate, ...]:
        """What the ranks of one pipeline stage told of ``name``.

        Ranks whose stage is not told speak for every stage.
        """
        return tuple(
            rank.sizes[name]
            for rank in self.ranks
            if name in rank.sizes and (stages == 1 or rank.stage in (stage, None))
        )

    @property
    def total(self) -> Estimate | None:
        """What the smallest card has."""
        told = [rank.sizes[TOTAL] for rank in self.ranks if TOTAL in rank.sizes]
        return min(told, key=lambda size: size.likely) if told else None

    @property
    def has_available(self) -> bool:
        return any(AVAILABLE in rank.sizes for rank in self.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What was measured, with what it holds for.

    model: as it was named. fingerprint: of its config. card: the driver's name.
    total_memory_bytes: what CUDA calls total.
    """

    model: str
    architecture: str
    fingerprint: str
    card: str
    total_memory_bytes: int
    measured: MeasuredMemory
