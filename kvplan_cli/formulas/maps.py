"""Where memory goes: parts that add up to a whole, in the order in which they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from kvplan_cli.formulas.blocks import blocks_alone, worker_label
from kvplan_cli.formulas.figures import Planned
from kvplan_cli.formulas.kinds import SPEC_WORDS, groups_label, spec_words
from kvplan_cli.formulas.ladder import at_end, line_at_end
from kvplan_cli.formulas.shares import Share, shares
from kvplan_cli.formulas.waste import Waste, wastes
from kvplan_cli.grouping.group import device_groups
from kvplan_cli.memory.budget import RankBudget
from kvplan_cli.planner.fitting import WorkerMemory
from kvplan_cli.planner.sizing import request_blocks
from kvplan_cli.values import dataclass


class MapOf(Enum):
    """What a map shows."""

    DEVICE = "device"
    BUDGET = "budget"
    REQUEST = "request"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """A run of bytes. offset_bytes: where it begins. wasted: no request reads it."""

    name: str
    num_bytes: int
    offset_bytes: int
    wasted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """Parts of ``total_bytes``. of: the worker, group or request; empty for all."""

    map_of: MapOf
    of: str
    total_bytes: int
    parts: tuple[MapPart, ...]


def memory_maps(planned: Planned, budgets: Sequence[RankBudget], end: str) -> tuple[MemoryMap, ...]:
    """The device, its budget for the cache, one request, and one block by group.

    Maps that would be the same are drawn once.
    """
    maps = [*_devices(budgets, end)]
    if planned.groups:
        maps += [*_budgets(planned), *_request(planned), *_blocks(planned)]
    return tuple(maps)


def _laid_out(parts: Sequence[tuple[str, int, bool]]) -> tuple[MapPart, ...]:
    """Parts one behind the other; those of no bytes are left out."""
    laid, offset = [], 0
    for name, size, wasted in parts:
        if size:
            laid.append(MapPart(name=name, num_bytes=size, offset_bytes=offset, wasted=wasted))
            offset += size
    return tuple(laid)


def _devices(budgets: Sequence[RankBudget], end: str) -> Iterator[MemoryMap]:
    known: dict[tuple[tuple[str, int, bool], ...], list[int]] = {}
    for budget in budgets:
        known.setdefault(_device_parts(budget, end), []).append(budget.stage)
    for parts, stages in known.items():
        total = budgets[stages[0]].total_memory_bytes
        of = worker_label(stages, len(budgets))
        yield MemoryMap(map_of=MapOf.DEVICE, of=of, total_bytes=total, parts=_laid_out(parts))


def _device_parts(budget: RankBudget, end: str) -> tuple[tuple[str, int, bool], ...]:
    lines = [
        (line.name.replace("_", " "), line_at_end(line.bytes_per_rank, end), False)
        for line in budget.lines
    ]
    left = at_end(budget.available, end)
    beside = budget.total_memory_bytes - budget.requested_bytes
    if left < 0:
        # What the lines take above the share runs into the rest of the card.
        return (*lines, ("left of the card", max(0, beside + left), False))
    return (*lines, ("KV cache", left, False), ("not requested", beside, False))


def _budgets(planned: Planned) -> Iterator[MemoryMap]:
    known: dict[tuple[tuple[str, int, bool], ...], list[int]] = {}
    for memory in planned.memories:
        if memory.available_bytes > 0:
            known.setdefault(_budget_parts(planned, memory), []).append(memory.index)
    for parts, workers in known.items():
        yield MemoryMap(
            map_of=MapOf.BUDGET,
            of=worker_label(workers, len(planned.memories)),
            total_bytes=planned.memories[workers[0]].available_bytes,
            parts=_laid_out(parts),
        )


def _budget_parts(planned: Planned, memory: WorkerMemory) -> tuple[tuple[str, int, bool], ...]:
    block, blocks = memory.bytes_per_block, planned.num_blocks
    of_request = request_blocks(
        memory.groups, planned.length.tokens, planned.settings.request_limits
    )
    usable = max(0, blocks - 1)
    whole = usable // of_request if of_request else 0
    rest = usable - whole * of_request
    noun = "request" if whole == 1 else "requests"
    alone = blocks_alone(memory)
    return (
        (f"{whole:,} whole {noun}", whole * of_request * block, False),
        ("part of another" if whole else "blocks, too few for a request", rest * block, False),
        ("null block", min(blocks, 1) * block, True),
        ("unused: others hold less", (alone - blocks) * block, True),
        ("left over", memory.available_bytes - alone * block, True),
    )


def _request(planned: Planned) -> Iterator[MemoryMap]:
    total = sum(share.size for share in shares(planned))
    if not total:
        return
    names = {
        Waste.REPLICAS: "read, and on other ranks as well",
        Waste.IN_FLIGHT: "room for tokens in flight",
        Waste.STATE_COPIES: "copies of states",
        Waste.KEPT_LIKE_FULL: "windows kept like full attention",
        Waste.BLOCK_ROUNDING: "rounding to blocks",
        Waste.PAGE_PADDING: "padding of pages",
        Waste.PADDING_LAYERS: "padding layers",
    }
    found = {wasted.waste: wasted.num_bytes for wasted in wastes(planned)}
    parts = [(name, found.get(waste, 0), True) for waste, name in names.items()]
    read = total - sum(size for _, size, _ in parts)
    yield MemoryMap(
        map_of=MapOf.REQUEST,
        of=f"{planned.length.tokens:,} tokens",
        total_bytes=total,
        parts=_laid_out([("read", read, False), *parts]),
    )


def _blocks(planned: Planned) -> Iterator[MemoryMap]:
    """One block by group: groups of equal pages together, on workers of equal blocks."""
    parts = iter(shares(planned))
    known: dict[tuple[int, tuple[tuple[str, int, bool], ...]], list[tuple[int, int]]] = {}
    for memory in planned.memories:
        for index, group in enumerate(device_groups(memory.groups)):
            words = " and ".join(dict.fromkeys(map(spec_words, group.layers_by_spec)))
            laid = _block_parts(next(parts), words)
            known.setdefault((memory.bytes_per_block, laid), []).append((memory.index, index))
    for (size, laid), places in known.items():
        workers = sorted({worker for worker, _ in places})
        of = groups_label(group for _, group in places)
        if len(planned.memories) > 1:
            of += f" on {worker_label(workers)}"
        yield MemoryMap(map_of=MapOf.BLOCK, of=of, total_bytes=size, parts=_laid_out(laid))


def _block_parts(share: Share, words: str) -> tuple[tuple[str, int, bool], ...]:
    pages = []
    if any(page.reach is not None for page in share.pages):
        # The merged spec names a window that not all of its layers have.
        words = SPEC_WORDS["FullAttentionSpec"]
    for page in share.pages:
        kind = words if page.reach is None else "kept-like-full"
        name = f"{page.layers:,} {kind} {'page' if page.layers == 1 else 'pages'}"
        pages.append((f"{name} of {page.content:,}", page.layers * page.content, False))
        padding = page.layers * (page.size - page.content)
        pages.append(("padding of pages", padding, True))
    held = sum(page.layers * page.size for page in share.pages)
    return (*pages, ("padding layers", share.block_bytes - held, True))
