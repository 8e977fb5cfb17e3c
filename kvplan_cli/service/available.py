"""Bytes for the KV cache on each worker: given, or estimated from a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.budget import Estimate, RankBudget, Source
from kvplan_cli.recall import Call, call
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.target import Target, find_target

if TYPE_CHECKING:
    from kvplan_cli.loader.told import Told


def find_available(
    inputs: Inputs, target: Target, recall: Call = call
) -> tuple[tuple[Estimate, ...], tuple[RankBudget, ...]]:
    """Available bytes a worker, and the ladders they come from (none where they were given).

    Raises: InputError, MissingFieldError, UnplannableError where weights are not known.
    """
    workers = len(target.workers)
    pinned = inputs.args.kv_cache_memory_bytes
    if pinned is not None:
        note = "--kv-cache-memory-bytes"
        return (Estimate.certain(pinned, Source.GIVEN, note),) * workers, ()
    if inputs.memory.kv_mem_bytes:
        sizes = _per_stage(inputs.memory.kv_mem_bytes, workers, inputs, "--kv-mem", min)
        return tuple(Estimate.certain(size, Source.GIVEN, "--kv-mem") for size in sizes), ()
    if inputs.told is not None:
        measured = _measured(inputs, inputs.told, target, recall)
        if measured is not None:
            return measured, ()
    budgets = estimated_budgets(inputs, target, recall)
    return tuple(budget.available for budget in budgets), budgets


def _measured(
    inputs: Inputs, told: Told, target: Target, recall: Call
) -> tuple[Estimate, ...] | None:
    """What a start measured, for the settings of this plan; None where it tells no memory."""
    # Logs and profiles are rare: their modules cost other plans nothing.
    from kvplan_cli.service import measured as kept

    kept.check_unchanged(told, inputs.args)
    available = kept.measured_available(told.measured, len(target.workers))
    names = kept.changes(told, inputs.args).moved
    if available is None or not names:
        return available
    then = replace(inputs, args=kept.measured_args(told, inputs.args))
    before = estimated_budgets(then, find_target(then, recall), recall)
    after = estimated_budgets(inputs, target, recall)
    return tuple(
        kept.moved(size, *ladders, names)
        for size, ladders in zip(available, zip(before, after, strict=True), strict=True)
    )


def estimated_budgets(
    inputs: Inputs, target: Target, recall: Call = call
) -> tuple[RankBudget, ...]:
    """The ladder of each stage from a card.

    Raises: as ``find_available``.
    """
    model, source = target.model, target.source
    if model is None or source is None:
        raise InputError(
            Problem(
                where="memory",
                reason="layer specs given outright say nothing of weights and buffers",
                way_out="give what is left for the KV cache with --kv-mem",
            )
        )
    # The families' weights are imported only where a card must be shared out.
    from kvplan_cli.logs.releases import release_of
    from kvplan_cli.memory.ladder import rank_budgets
    from kvplan_cli.memory.releases import memory_rules

    config = recall(HfConfig, source.config, source.origin.place)
    rules = memory_rules(release_of(inputs.rules.release))
    ladders = {
        card: rank_budgets(
            card,
            config,
            model.shape,
            model.traits,
            model.settings,
            inputs.args,
            estimated_weights(replace(inputs, gpu=card), target, recall),
            rules,
        )
        for card in dict.fromkeys(inputs.stage_gpus)
    }
    stages = range(len(target.workers))
    return tuple(ladders[_card_of(inputs, stage)][stage] for stage in stages)


def _card_of(inputs: Inputs, stage: int) -> Gpu:
    """The card of a stage's ranks."""
    return inputs.stage_gpus[stage % len(inputs.stage_gpus)]


def estimated_weights(inputs: Inputs, target: Target, recall: Call = call) -> tuple[Estimate, ...]:
    """Weights of one rank of each stage: given, measured or counted.

    Raises: UnplannableError where they can't be counted, MissingFieldError.
    """
    assert target.model is not None
    assert target.source is not None
    workers = len(target.workers)
    if inputs.memory.weights_bytes:
        sizes = _per_stage(inputs.memory.weights_bytes, workers, inputs, "--weights", max)
        return tuple(Estimate.certain(size, Source.GIVEN, "--weights") for size in sizes)
    if inputs.told is not None:
        from kvplan_cli.service.measured import measured_weights

        measured = measured_weights(inputs.told.measured, workers)
        if measured is not None:
            return measured
    from kvplan_cli.service.weights import rank_weights

    return recall(rank_weights, inputs, target.source, target.model)


def _per_stage(
    sizes: Sequence[int],
    stages: int,
    inputs: Inputs,
    flag: str,
    hardest: object,
) -> tuple[int, ...]:
    """One value a stage: the same for all, one each, or the hardest of each stage's ranks."""
    ranks_per_stage = inputs.args.tensor_parallel_size
    if len(sizes) == 1:
        return (sizes[0],) * stages
    if len(sizes) == stages:
        return tuple(sizes)
    if len(sizes) == stages * ranks_per_stage and callable(hardest):
        return tuple(
            hardest(sizes[stage * ranks_per_stage : (stage + 1) * ranks_per_stage])
            for stage in range(stages)
        )
    raise InputError(
        Problem(
            where=flag,
            reason=f"{len(sizes)} values for {stages} pipeline stages of {ranks_per_stage} ranks",
            way_out=f"give one value, {stages}, or one a rank ({stages * ranks_per_stage})",
        )
    )
