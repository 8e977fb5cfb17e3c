"""Bytes for the KV cache on each worker: given, or estimated from a card."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.errors import InputError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.checkpoint import checkpoint_bytes
from kvplan_cli.memory.budget import Estimate, RankBudget, Source
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.target import Target


def find_available(
    inputs: Inputs, target: Target
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
    budgets = _budgets(inputs, target)
    return tuple(budget.available for budget in budgets), budgets


def _budgets(inputs: Inputs, target: Target) -> tuple[RankBudget, ...]:
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
    from kvplan_cli.memory.ladder import rank_budgets

    config = HfConfig(source.config, source.origin.place)
    weights = _weights(inputs, target, config)
    return rank_budgets(
        inputs.gpu, config, model.shape, model.traits, model.settings, inputs.args, weights
    )


def _weights(inputs: Inputs, target: Target, config: HfConfig) -> tuple[Estimate, ...]:
    assert target.model is not None
    assert target.source is not None
    workers = len(target.workers)
    if inputs.memory.weights_bytes:
        sizes = _per_stage(inputs.memory.weights_bytes, workers, inputs, "--weights", max)
        return tuple(Estimate.certain(size, Source.GIVEN, "--weights") for size in sizes)
    from kvplan_cli.memory.weights.count import count_weights

    model = target.model
    try:
        return count_weights(
            config,
            model.shape,
            model.settings,
            inputs.args,
            target.source.extra_files,
            inputs.gpu.capability,
        )
    except UnplannableError:
        whole = _whole_checkpoint(inputs, target)
        if whole is None:
            raise
        return (whole,)


def _whole_checkpoint(inputs: Inputs, target: Target) -> Estimate | None:
    """The checkpoint's own bytes where one rank holds all of them."""
    assert target.source is not None
    checkpoint = target.source.checkpoint
    alone = len(target.workers) == 1 and inputs.args.tensor_parallel_size == 1
    if checkpoint is None or not alone:
        return None
    size = checkpoint_bytes(checkpoint)
    if size is None:
        return None
    return Estimate.certain(size, Source.COMPUTED, "all tensors of the checkpoint")


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
