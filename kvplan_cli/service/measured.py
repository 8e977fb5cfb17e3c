"""Measured memory in place of the estimate, moved where a plan asks for other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.told import Told
from kvplan_cli.memory.budget import Estimate, RankBudget, Source
from kvplan_cli.memory.measured import (
    AVAILABLE,
    FIXED_FLAGS,
    MOVED_FLAGS,
    WEIGHTS,
    MeasuredMemory,
)
from kvplan_cli.values import dataclass

_DOUBT: Final = 2  # half of what the model moves is in doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Settings that a plan asks for and the measured start did not have: name to both values."""

    fixed: Mapping[str, tuple[Any, Any]]
    moved: Mapping[str, tuple[Any, Any]]


def changes(told: Told, args: EngineArgs) -> Changed:
    """What differs; only settings that the start told can."""
    measured = told.measured.flags
    if told.measured.tells_all_flags:
        defaults = EngineArgs()
        names = (*FIXED_FLAGS, *MOVED_FLAGS)
        measured = {**{name: getattr(defaults, name) for name in names}, **measured}
        if "gpu_memory_utilization" not in told.measured.flags:
            del measured["gpu_memory_utilization"]  # its default is not the same in all releases
    differing = {
        name: (measured[name], getattr(args, name))
        for name in (*FIXED_FLAGS, *MOVED_FLAGS)
        if name in measured and measured[name] != getattr(args, name)
    }
    return Changed(
        fixed={key: value for key, value in differing.items() if key in FIXED_FLAGS},
        moved={key: value for key, value in differing.items() if key in MOVED_FLAGS},
    )


def check_unchanged(told: Told, args: EngineArgs) -> None:
    """InputError where what was measured does not hold for ``args``."""
    fixed = changes(told, args).fixed
    if fixed:
        raise InputError(
            Problem(
                where=f"{told.where} and --{name.replace('_', '-')}",
                reason=f"measured with {_shown(before)}, the plan asks for {_shown(after)}",
                way_out="plan what was measured, or estimate the other with --gpu",
            )
            for name, (before, after) in fixed.items()
        )


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)[:60]


def measured_args(told: Told, args: EngineArgs) -> EngineArgs:
    """The arguments under which it was measured."""
    moved = {name: before for name, (before, _) in changes(told, args).moved.items()}
    return replace(args, **moved)


def measured_available(measured: MeasuredMemory, stages: int) -> tuple[Estimate, ...] | None:
    """Available bytes of each stage: its smallest rank's. None where one stage told nothing."""
    found = []
    for stage in range(stages):
        told = measured.of_stage(AVAILABLE, stage, stages)
        if not told:
            return None
        found.append(min(told, key=lambda size: size.likely))
    return tuple(found)


def measured_weights(measured: MeasuredMemory, stages: int) -> tuple[Estimate, ...] | None:
    """Weights of each stage: its largest rank's. None where one stage told nothing."""
    found = []
    for stage in range(stages):
        told = measured.of_stage(WEIGHTS, stage, stages)
        if not told:
            return None
        found.append(max(told, key=lambda size: size.likely))
    return tuple(found)


def moved(
    measured: Estimate, before: RankBudget, after: RankBudget, names: Mapping[str, Any]
) -> Estimate:
    """What was measured, by as much less or more as the model says of the new settings."""
    requested = after.requested_bytes - before.requested_bytes
    modelled = after.available.likely - before.available.likely - requested
    doubt = abs(modelled) // _DOUBT
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
    return Estimate(
        low=measured.low + requested + modelled - doubt,
        likely=measured.likely + requested + modelled,
        high=measured.high + requested + modelled + doubt,
        source=Source.COMPUTED,
        note=f"{measured.note}; moved for {flags}",
    )
