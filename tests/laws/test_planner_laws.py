"""Laws that every plan obeys, whatever the model and the memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given

from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import MEMORY_REFUSALS, Plan, Refusal, RefusalKind
from tests.laws.strategies import Layers, memories, models, settings


def planned(layers: Layers, memory: int, wanted: PlannerSettings) -> Plan:
    outcome = plan([layers], [memory], wanted)
    assume(isinstance(outcome, Plan))
    assert isinstance(outcome, Plan)
    return outcome


def plannable(layers: Layers, wanted: PlannerSettings) -> None:
    """Leave models aside that the engine refuses whatever the memory."""
    outcome = plan([layers], [1 << 60], wanted)
    assume(isinstance(outcome, Plan) or outcome.kind in MEMORY_REFUSALS)


@given(models(), memories, settings())
def test_blocks_fill_the_budget_and_one_more_does_not_fit(
    layers: Layers, memory: int, wanted: PlannerSettings
) -> None:
    (worker,) = planned(layers, memory, wanted).workers
    assert worker.allocated_bytes <= memory < worker.allocated_bytes + worker.bytes_per_block
    assert worker.unused_bytes == memory - worker.allocated_bytes


@given(models(), memories, memories, settings())
def test_more_memory_never_means_fewer_blocks(
    layers: Layers, memory: int, more: int, wanted: PlannerSettings
) -> None:
    small = planned(layers, memory, wanted)
    large = planned(layers, memory + more, wanted)
    assert large.num_blocks >= small.num_blocks
    assert (large.max_concurrency or 0) >= (small.max_concurrency or 0)


@given(models(), settings())
def test_need_grows_with_length(layers: Layers, wanted: PlannerSettings) -> None:
    plannable(layers, wanted)
    longer = replace(wanted, max_model_len=wanted.max_model_len + 1)
    short, long = (planned(layers, 1 << 60, s).workers[0] for s in (wanted, longer))
    assert long.request_need_bytes >= short.request_need_bytes


@given(models(), memories, settings())
def test_auto_fit_fits_and_one_token_more_does_not(
    layers: Layers, memory: int, wanted: PlannerSettings
) -> None:
    fitted = planned(layers, memory, replace(wanted, auto_fit=True))
    length = fitted.max_model_len
    assert isinstance(plan([layers], [memory], replace(wanted, max_model_len=length)), Plan)
    if length == wanted.max_model_len:
        assert fitted.auto_fit_limiting_worker is None
        return
    assert fitted.auto_fit_limiting_worker == 0
    refused = plan([layers], [memory], replace(wanted, max_model_len=length + 1))
    assert isinstance(refused, Refusal)
    assert refused.kind is RefusalKind.REQUEST_TOO_LARGE
    assert refused.estimated_max_model_len == length


@given(models(), memories, settings())
def test_every_layer_is_in_exactly_one_group(
    layers: Layers, memory: int, wanted: PlannerSettings
) -> None:
    groups = planned(layers, memory, wanted).groups
    names = [name for group in groups for name in group.layer_names]
    assert sorted(names) == sorted(layers)


@given(models(), memories, settings())
def test_capacity_by_blocks_equals_capacity_by_bytes(
    layers: Layers, memory: int, wanted: PlannerSettings
) -> None:
    outcome = planned(layers, memory, wanted)
    (worker,) = outcome.workers
    by_bytes = worker.allocated_bytes / worker.request_need_bytes
    assert outcome.max_concurrency is not None
    assert abs(outcome.max_concurrency - by_bytes) <= 1e-9 * by_bytes
    assert outcome.kv_cache_size_tokens == int(outcome.max_concurrency * outcome.max_model_len)


@given(models(), memories, settings())
def test_tensors_stay_inside_their_allocation(
    layers: Layers, memory: int, wanted: PlannerSettings
) -> None:
    (worker,) = planned(layers, memory, wanted).workers
    for tensor in worker.kv_cache_tensors:
        last = tensor.offset + (len(tensor.layers) - 1) * tensor.layer_stride
        last += (worker.num_blocks - 1) * tensor.block_stride
        assert last < tensor.size == worker.allocated_bytes
    placed = [name for tensor in worker.kv_cache_tensors for name in tensor.layers]
    assert sorted(placed) == sorted(layers)


@given(models(), memories, memories, settings())
def test_the_smallest_worker_decides_for_all(
    layers: Layers, first: int, second: int, wanted: PlannerSettings
) -> None:
    assume(len(layers) >= 2)
    items = list(layers.items())
    half = len(items) // 2
    stages = [dict(items[:half]), dict(items[half:])]
    outcome = plan(stages, [first, second], wanted)
    assume(isinstance(outcome, Plan))
    assert isinstance(outcome, Plan)
    alone = [worker.num_blocks_alone for worker in outcome.workers]
    assert outcome.num_blocks == min(alone) == alone[outcome.limiting_worker]
    assert all(worker.num_blocks == outcome.num_blocks for worker in outcome.workers)
    for worker, memory in zip(outcome.workers, (first, second), strict=True):
        assert worker.allocated_bytes <= memory
