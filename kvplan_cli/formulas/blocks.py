"""The pool: bytes of a block, blocks of a worker, and what that holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.engine_rules import TokenLine
from kvplan_cli.formulas.arithmetic import (
    Expression,
    ceil,
    floor,
    largest,
    least,
    minus,
    named,
    over,
    plain,
    plus,
    times,
)
from kvplan_cli.formulas.formula import Bound, Formula, Relation, Unit
from kvplan_cli.formulas.kinds import Kind, groups_label, layer_kinds, spec_words
from kvplan_cli.formulas.requests import PLANNING, Length, request_blocks_expression
from kvplan_cli.grouping.equal_sized import PAD_BELOW_RATIO, layers_a_group, pads_smaller_kinds
from kvplan_cli.grouping.group import KVCacheGroup, device_groups
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.planner.fitting import WorkerMemory
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.planner.sizing import layer_block_stride, request_blocks
from kvplan_cli.specs import HiddenStateCacheSpec, HiSparseHotSpec
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs

_UTILS: Final = "vllm/v1/core/kv_cache_utils.py"
_CONFIG_FROM_GROUPS: Final = f"{PLANNING}:get_kv_cache_config_from_groups"
BLOCK_BYTES: Final = "bytes a block"


def group_formulas(groups: Sequence[KVCacheGroup]) -> Iterator[Formula]:
    """How many layers a group has and how many groups a kind, where kinds share one page.

    Nothing for packed groups and for a model of one group.
    """
    on_device = [g for g in groups if not isinstance(g.spec, HiddenStateCacheSpec)]
    bundled = any(isinstance(group.spec, UniformTypeKVCacheSpecs) for group in on_device)
    kinds = layer_kinds(on_device)
    if len(on_device) < 2 or bundled or any(group.host_resident for group in on_device):
        return
    counts = [kind.num_layers for kind in kinds]
    size = layers_a_group(counts)
    parts = [named(f"{spec_words(kind.spec)} layers", kind.num_layers) for kind in kinds]
    pads = pads_smaller_kinds(counts)
    source = f"{PLANNING}:_get_kv_cache_groups_uniform_page_size"
    rule = f"the largest kind has {'less' if pads else 'not less'} than {PAD_BELOW_RATIO} times "
    yield Formula(
        name="layers a group",
        of="every group",
        expression=largest(*parts) if pads else least(*parts),
        result=size,
        unit=Unit.LAYERS,
        source=source,
        note=f"{rule}the layers of the smallest",
    )
    for kind in kinds:
        yield from _groups_of_kind(kind, size, source)


def _groups_of_kind(kind: Kind, size: int, source: str) -> Iterator[Formula]:
    layers, each = named("layers", kind.num_layers), named("layers a group", size)
    groups = len(kind.groups)
    if groups > 1:
        yield Formula(
            name="groups",
            of=kind.label,
            expression=ceil(over(layers, each)),
            result=groups,
            unit=Unit.GROUPS,
            source=source,
        )
    padding = -kind.num_layers % size
    if padding:
        yield Formula(
            name="padding layers",
            of=kind.label,
            expression=minus(times(named("groups", groups), each), layers),
            result=padding,
            unit=Unit.LAYERS,
            source=source,
        )


def of_workers(formulas: Sequence[Formula], of: str = "") -> Iterator[Formula]:
    """Formulas of the workers in turn, those that read alike as one. of: what they speak of."""
    alike: dict[tuple[str, str], list[int]] = {}
    for worker, formula in enumerate(formulas):
        alike.setdefault((formula.names, formula.figures), []).append(worker)
    for workers in alike.values():
        label = worker_label(workers, len(formulas))
        yield replace(formulas[workers[0]], of=", ".join(part for part in (of, label) if part))


def block_bytes_formula(memory: WorkerMemory, layout: KVCacheLayout) -> Formula:
    """Bytes that one block id costs on a worker: those of its widest group."""
    groups = device_groups(memory.groups)
    packed = layout.is_block_outermost
    alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for index, group in enumerate(groups):
        alike.setdefault(_pages(group, packed=packed), []).append(index)
    expression = largest(*(_side_by_side(pages, places) for pages, places in alike.items()))
    if packed:
        expression = _aligned(expression, groups)
    return Formula(
        name=BLOCK_BYTES,
        expression=expression,
        result=memory.bytes_per_block,
        unit=Unit.BYTES,
        source=f"{PLANNING}:_get_kv_cache_bytes_per_block",
        note=f"layout {layout.value}; the widest group",
    )


def _pages(group: KVCacheGroup, *, packed: bool) -> tuple[tuple[int, int], ...]:
    """Layers of each page size; pages are raised to their alignment in unpacked layouts."""
    pages: dict[int, int] = {}
    for spec, names in group.layers_by_spec.items():
        page = spec.page_size_bytes if packed else layer_block_stride(spec)
        pages[page] = pages.get(page, 0) + len(names)
    return tuple((layers, page) for page, layers in pages.items())


def _side_by_side(pages: Sequence[tuple[int, int]], groups: Sequence[int]) -> Expression:
    """Bytes of one block of groups with these pages."""
    if not pages:
        return plain(0)
    name = f"layers of {groups_label(groups)}"
    return plus(*(times(named(name, layers), named("page", page)) for layers, page in pages))


def _aligned(widest: Expression, groups: Sequence[KVCacheGroup]) -> Expression:
    alignments = {spec.stride_alignment_bytes() for g in groups for spec in g.layers_by_spec}
    hot = {g.page_size_bytes for g in groups if isinstance(g.spec, HiSparseHotSpec)}
    alignment = math.lcm(*alignments, *hot)
    if alignment == 1:
        return widest
    step = named("alignment", alignment)
    return times(ceil(over(widest, step)), step)


def worker_label(workers: Sequence[int], number: int = 0) -> str:
    """``worker 0``; nothing where there is one worker. number: of all workers."""
    if number == 1:
        return ""
    return groups_label(workers).replace("group", "worker")


def blocks_alone(memory: WorkerMemory) -> int:
    """Blocks that a worker could hold were it the only one."""
    return memory.available_bytes // memory.bytes_per_block


def num_blocks_formulas(
    memories: Sequence[WorkerMemory], settings: PlannerSettings, num_blocks: int
) -> Iterator[Formula]:
    """Blocks of each worker alone, then of all: the fewest."""
    override = settings.num_gpu_blocks_override
    if override is not None:
        yield Formula(
            name="num_blocks",
            expression=named("num_gpu_blocks_override", override),
            result=num_blocks,
            unit=Unit.BLOCKS,
            source=f"{PLANNING}:may_override_num_blocks",
        )
        return
    many = len(memories) > 1
    name = "num_blocks alone" if many else "num_blocks"
    alone = [_alone_formula(name, memory) for memory in memories]
    yield from of_workers(alone)
    if many:
        fewest = dict.fromkeys(formula.result for formula in alone)
        yield Formula(
            name="num_blocks",
            of="every worker",
            expression=least(*(named(name, number) for number in fewest)),
            result=num_blocks,
            unit=Unit.BLOCKS,
            source=f"{PLANNING}:get_kv_cache_configs",
        )


def _alone_formula(name: str, memory: WorkerMemory) -> Formula:
    available = named("available", memory.available_bytes)
    return Formula(
        name=name,
        expression=floor(over(available, named(BLOCK_BYTES, memory.bytes_per_block))),
        result=blocks_alone(memory),
        unit=Unit.BLOCKS,
        source=_CONFIG_FROM_GROUPS,
    )


def need_formula(memory: WorkerMemory, length: Length, settings: PlannerSettings) -> Formula:
    """Bytes of one request on a worker, held against what checks leave there."""
    blocks = request_blocks(memory.groups, length.tokens, settings.request_limits)
    left = memory.checkable_bytes
    need = memory.need_bytes(length.tokens, settings)
    relation = Relation.AT_MOST if need <= left else Relation.ABOVE
    return Formula(
        name="needed by one request",
        expression=times(
            named("blocks of a request", blocks), named(BLOCK_BYTES, memory.bytes_per_block)
        ),
        result=need,
        unit=Unit.BYTES,
        source=f"{PLANNING}:_max_memory_usage_bytes_from_groups",
        bound=Bound(relation=relation, name=_left_name(memory), number=left),
    )


def missing_formula(
    memory: WorkerMemory, length: Length, settings: PlannerSettings
) -> Formula | None:
    """Bytes that a worker lacks for one request; None where it has them."""
    need, left = memory.need_bytes(length.tokens, settings), memory.checkable_bytes
    if need <= left:
        return None
    return Formula(
        name="missing",
        expression=minus(named("needed by one request", need), named(_left_name(memory), left)),
        result=need - left,
        unit=Unit.BYTES,
        source=f"{PLANNING}:_check_enough_kv_cache_memory",
    )


def missing_states_formula(refusal: Refusal) -> Formula:
    """Blocks that are lacking for a state of each sequence that graphs are captured for."""
    assert refusal.needed_blocks is not None
    assert refusal.available_blocks is not None
    return Formula(
        name="missing",
        of="a state for each sequence of a step",
        expression=minus(
            named("max_num_seqs", refusal.needed_blocks),
            named("num_blocks", refusal.available_blocks),
        ),
        result=refusal.needed_blocks - refusal.available_blocks,
        unit=Unit.BLOCKS,
        source="vllm/config/compilation.py:CompilationConfig.resolve_cudagraph_mode_and_sizes",
    )


def _left_name(memory: WorkerMemory) -> str:
    return "available less the null block" if memory.null_block_bytes else "available"


def checkable_formula(memory: WorkerMemory) -> Formula:
    """What one request may take: all but the block that is never handed out."""
    block = named(BLOCK_BYTES, memory.null_block_bytes)
    return Formula(
        name=_left_name(memory),
        expression=minus(named("available", memory.available_bytes), block),
        result=memory.checkable_bytes,
        unit=Unit.BYTES,
        source=f"{PLANNING}:get_kv_cache_configs",
    )


def capacity_formulas(plan: Plan, settings: PlannerSettings) -> Iterator[Formula]:
    """Concurrency and tokens; by blocks as well where the release prints them so."""
    if plan.max_concurrency is None or plan.kv_cache_size_tokens is None:
        return
    blocks = named("num_blocks", plan.num_blocks)
    held = sum(plan.workers[0].blocks_per_request_by_group)
    concurrency = over(blocks, named("blocks of a request", held))
    yield Formula(
        name="requests at a time",
        of=f"{plan.max_model_len:,} tokens",
        expression=concurrency,
        result=plan.max_concurrency,
        unit=Unit.REQUESTS,
        source=f"{_UTILS}:get_max_concurrency_for_kv_cache_config",
    )
    yield Formula(
        name="tokens",
        expression=floor(times(concurrency, named("max_model_len", plan.max_model_len))),
        result=plan.kv_cache_size_tokens,
        unit=Unit.TOKENS,
        source=f"{_UTILS}:get_kv_cache_capacity",
    )
    if settings.rules.token_line is not TokenLine.BY_BLOCKS:
        return
    assert plan.kv_cache_size_tokens_by_blocks is not None
    a_group = floor(over(blocks, named("groups", len(plan.workers[0].groups))))
    parts: list[Expression] = [a_group, named("block_size", plan.block_size)]
    if settings.decode_context_parallel_size > 1:
        parts.append(named("DCP", settings.decode_context_parallel_size))
    yield Formula(
        name="tokens by blocks, as this release prints",
        expression=times(*parts),
        result=plan.kv_cache_size_tokens_by_blocks,
        unit=Unit.TOKENS,
        source=f"{_UTILS}:_report_kv_cache_config of 0.20.0",
    )


def longest_formulas(
    memories: Sequence[WorkerMemory], longest: int, limit: int, settings: PlannerSettings
) -> Iterator[Formula]:
    """That one request of the longest context fits, and one of a token more does not.

    limit: tokens that the model takes; there the search ends.
    """
    fitting = [_whole_need(memory, longest, settings) for memory in memories]
    yield from of_workers(fitting, f"{longest:,} tokens")
    if longest < limit:
        longer = [_whole_need(memory, longest + 1, settings) for memory in memories]
        for formula in of_workers(longer, f"{longest + 1:,} tokens"):
            if formula.bound is not None and formula.bound.relation is Relation.ABOVE:
                yield replace(formula, name="a token longer")


def _whole_need(memory: WorkerMemory, tokens: int, settings: PlannerSettings) -> Formula:
    """Needed bytes worked out from the length alone."""
    length = Length(tokens=tokens, name="tokens")
    blocks = request_blocks_expression(memory.groups, length, settings.request_limits)
    return replace(
        need_formula(memory, length, settings),
        name="longest context",
        expression=times(blocks, named(BLOCK_BYTES, memory.bytes_per_block)),
        source=f"{PLANNING}:_estimate_max_model_len_from_groups",
    )
