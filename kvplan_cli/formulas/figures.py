"""Every figure of a plan in order: from the card to the longest context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from kvplan_cli.formulas.arithmetic import Expression, named, plain, plus
from kvplan_cli.formulas.blocks import (
    block_bytes_formula,
    blocks_alone,
    capacity_formulas,
    checkable_formula,
    group_formulas,
    longest_formulas,
    missing_formula,
    missing_states_formula,
    need_formula,
    num_blocks_formulas,
    of_workers,
    worker_label,
)
from kvplan_cli.formulas.formula import Formula
from kvplan_cli.formulas.kinds import layer_kinds
from kvplan_cli.formulas.pages import heads_formula, page_formula
from kvplan_cli.formulas.requests import Length, block_formulas, in_flight_formulas
from kvplan_cli.grouping.group import KVCacheGroup
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.models.shape import ModelShape
from kvplan_cli.planner.fitting import WorkerMemory
from kvplan_cli.planner.layout_choice import resolve_layout
from kvplan_cli.planner.plan import worker_memories
from kvplan_cli.planner.results import Plan, Refusal, RefusalKind
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)
from kvplan_cli.specs.bundle import LayerSpecs, iter_layer_specs
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One outcome with what it was planned from.

    workers: the layers of each as they were given. memories: of each, with its groups, whether
    or not a request fits. kv_heads: of the whole model by layer name, before ranks share them,
    where that is known. groups: of the whole model.
    """

    outcome: Plan | Refusal
    workers: tuple[LayerSpecs, ...]
    settings: PlannerSettings
    layout: KVCacheLayout
    memories: tuple[WorkerMemory, ...]
    kv_heads: Mapping[str, int] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[KVCacheGroup, ...]:
        return self.outcome.groups

    def heads_of(self, layer: str, spec: KVCacheSpec) -> int | None:
        """KV heads of a layer over all ranks; None where it keeps none, or nobody knows."""
        if not isinstance(spec, AttentionSpec):
            return None
        return self.kv_heads.get(layer, spec.max_tp_shards)

    @property
    def length(self) -> Length:
        """The request that was planned for."""
        tokens = self.outcome.max_model_len
        return Length(tokens=self.settings.max_model_len if tokens is None else tokens)

    @property
    def num_blocks(self) -> int:
        """Blocks of every worker, whether or not they hold a request."""
        if isinstance(self.outcome, Plan):
            return self.outcome.num_blocks
        return min(blocks_alone(memory) for memory in self.memories)


def planned_from(
    outcome: Plan | Refusal,
    workers: Sequence[LayerSpecs],
    available_bytes: Sequence[int],
    settings: PlannerSettings,
    shape: ModelShape | None = None,
) -> Planned:
    """The outcome with each worker's groups and memory found again.

    shape: None for layer specs given outright.
    """
    layout = resolve_layout(workers, settings)
    memories = worker_memories(workers, available_bytes, settings, layout, outcome.groups)
    return Planned(
        outcome=outcome,
        workers=tuple(workers),
        settings=settings,
        layout=layout,
        memories=tuple(memories),
        kv_heads={}
        if shape is None
        else {layer.name: layer.num_kv_heads for layer in shape.attention_layers},
    )


def plan_formulas(planned: Planned, resolved: ResolvedSettings | None) -> Iterator[Formula]:
    """From the pages to the tokens. resolved: None for layer specs given outright.

    Nothing for a model that keeps no cache.
    """
    if not planned.groups:
        return
    settings, memories = planned.settings, planned.memories
    yield from _heads(planned)
    yield from map(page_formula, layer_kinds(planned.groups))
    yield from group_formulas(planned.groups)
    yield from of_workers([block_bytes_formula(memory, planned.layout) for memory in memories])
    if planned.num_blocks >= 0:
        yield from num_blocks_formulas(memories, settings, planned.num_blocks)
    if _reads_in_flight(planned.groups):
        yield from in_flight_formulas(settings, batches_expression(resolved))
    yield from block_formulas(memories[0].groups, planned.length, settings)
    if settings.rules.reserves_null_block:
        yield from of_workers([checkable_formula(memory) for memory in memories])
    needs = [need_formula(memory, planned.length, settings) for memory in memories]
    yield from of_workers(needs, f"{planned.length.tokens:,} tokens")
    if isinstance(planned.outcome, Plan):
        yield from capacity_formulas(planned.outcome, settings)
    else:
        yield from _missing(planned, planned.outcome)


def _heads(planned: Planned) -> Iterator[Formula]:
    """Heads of a rank: kinds that share them out alike stand together."""
    ranks = planned.settings.tensor_parallel_size
    alike: dict[str, list[Formula]] = {}
    for kind in layer_kinds(planned.groups):
        formula = heads_formula(kind, ranks, planned.heads_of(kind.first_layer, kind.spec))
        if formula is not None:
            alike.setdefault(formula.figures, []).append(formula)
    for formulas in alike.values():
        yield replace(formulas[0], of="; ".join(dict.fromkeys(f.of for f in formulas)))


def _missing(planned: Planned, refusal: Refusal) -> Iterator[Formula]:
    """What is lacking where it does not fit."""
    for memory in planned.memories:
        formula = missing_formula(memory, planned.length, planned.settings)
        if formula is not None:
            yield replace(formula, of=worker_label([memory.index], len(planned.memories)))
    if refusal.kind is RefusalKind.TOO_FEW_STATES:
        yield missing_states_formula(refusal)


def longest_context_formulas(automatic: Planned) -> Iterator[Formula]:
    """Of a plan whose length was fitted: that it fits, and a token more does not."""
    outcome, settings = automatic.outcome, automatic.settings
    if isinstance(outcome, Plan) and outcome.groups:
        memories = automatic.memories
        yield from longest_formulas(
            memories, outcome.max_model_len, settings.max_model_len, settings
        )


def _reads_in_flight(groups: Sequence[KVCacheGroup]) -> bool:
    """Whether any layer keeps room for tokens in flight."""
    kinds = (SlidingWindowSpec, ChunkedLocalAttentionSpec, HiSparseResidentSpec)
    return any(isinstance(s, kinds) for group in groups for s in iter_layer_specs(group.spec))


def batches_expression(resolved: ResolvedSettings | None) -> Expression | None:
    """Batches in flight from pipeline stages and overlapping steps."""
    if resolved is None:
        return None
    stages = named("PP", resolved.pipeline_parallel_size)
    if not resolved.async_scheduling:
        return stages
    if resolved.use_v2_model_runner:
        return plus(stages, named("overlapping steps", 1))
    return stages if resolved.pipeline_parallel_size > 1 else plain(2)
