"""Bytes of the cache that no request reads, by name and reason; each byte counted once.

What stands in every request is told of one request, over one rank of each stage: its share of
that request is its share of a cache full of such requests. The rest is told of the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from kvplan_cli.formulas.arithmetic import Expression, minus, named, plus, times, worked_out
from kvplan_cli.formulas.blocks import BLOCK_BYTES, blocks_alone
from kvplan_cli.formulas.figures import Planned
from kvplan_cli.formulas.formula import Formula, Unit, derived
from kvplan_cli.formulas.shares import Share, shares
from kvplan_cli.values import dataclass


class Waste(Enum):
    """Why bytes are not read."""

    PAGE_PADDING = "page_padding"
    PADDING_LAYERS = "padding_layers"
    BLOCK_ROUNDING = "block_rounding"
    IN_FLIGHT = "in_flight_reserve"
    STATE_COPIES = "state_copies"
    KEPT_LIKE_FULL = "windows_kept_like_full"
    REPLICAS = "replicas"
    OTHER_WORKERS = "unused_on_other_workers"
    LEFT_OVER = "left_over"
    NULL_BLOCK = "null_block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wasted:
    """One kind of waste. formula: its bytes. of_bytes: what the share is taken of: one request,
    or what is available to all workers."""

    waste: Waste
    formula: Formula
    of_bytes: int
    of_a_request: bool

    @property
    def num_bytes(self) -> int:
        return int(self.formula.result)

    @property
    def percent(self) -> float:
        return 100 * self.num_bytes / self.of_bytes


_SOURCES = {
    Waste.PAGE_PADDING: "page_size_bytes less what the page holds",
    Waste.PADDING_LAYERS: "bytes a block less the pages of the group's layers",
    Waste.BLOCK_ROUNDING: "slots of its blocks less the tokens they are for",
    Waste.IN_FLIGHT: "max_memory_usage_bytes with all tokens in flight, less with one",
    Waste.STATE_COPIES: "max_memory_usage_bytes less the state it runs on",
    Waste.KEPT_LIKE_FULL: "blocks of full attention less those of the window or chunk",
    Waste.REPLICAS: "tensor parallel ranks that hold the same",
    Waste.OTHER_WORKERS: "blocks that the worker could hold, less those of all",
    Waste.LEFT_OVER: "available less whole blocks",
    Waste.NULL_BLOCK: "vllm/v1/core/block_pool.py:BlockPool.null_block",
}


def wastes(planned: Planned) -> tuple[Wasted, ...]:
    """What is wasted, the largest share first; nothing that is nothing."""
    if not planned.groups:
        return ()
    found = [*_of_a_request(planned), *_of_workers(planned)]
    return tuple(sorted((each for each in found if each.num_bytes), key=lambda each: -each.percent))


def _of_a_request(planned: Planned) -> Iterator[Wasted]:
    length, parts = planned.length, shares(planned)
    total = sum(share.size for share in parts)
    if not total:
        return
    for waste, of_share in _PARTS.items():
        terms: dict[Expression, int] = {}
        for share in parts:
            term = of_share(share)
            if term is not None and worked_out(term):
                terms[term] = terms.get(term, 0) + 1
        if terms:
            yield Wasted(
                waste=waste,
                formula=_formula(waste, terms, f"a request of {length.tokens:,} tokens"),
                of_bytes=total,
                of_a_request=True,
            )


_PARTS = {
    Waste.PAGE_PADDING: Share.page_padding,
    Waste.PADDING_LAYERS: Share.padding_layers,
    Waste.BLOCK_ROUNDING: Share.block_rounding,
    Waste.IN_FLIGHT: Share.in_flight,
    Waste.STATE_COPIES: Share.state_copies,
    Waste.KEPT_LIKE_FULL: Share.kept_like_full,
    Waste.REPLICAS: Share.replicas,
}


def _formula(waste: Waste, terms: dict[Expression, int], of: str) -> Formula:
    parts = [
        term if number == 1 else times(named("groups", number), term)
        for term, number in terms.items()
    ]
    return derived(waste.value.replace("_", " "), plus(*parts), Unit.BYTES, _SOURCES[waste], of=of)


def _of_workers(planned: Planned) -> Iterator[Wasted]:
    memories, num_blocks = planned.memories, planned.num_blocks
    available = sum(memory.available_bytes for memory in memories)
    if num_blocks < 1 or available <= 0:
        return
    terms: dict[Waste, dict[Expression, int]] = {}

    def add(waste: Waste, term: Expression) -> None:
        known = terms.setdefault(waste, {})
        known[term] = known.get(term, 0) + 1

    for memory in memories:
        block = named(BLOCK_BYTES, memory.bytes_per_block)
        alone = blocks_alone(memory)
        blocks: Expression = named("num_blocks alone", alone)
        if alone > num_blocks:
            more = minus(blocks, named("num_blocks", num_blocks))
            add(Waste.OTHER_WORKERS, times(more, block))
        held = times(blocks, block)
        add(Waste.LEFT_OVER, minus(named("available", memory.available_bytes), held))
        add(Waste.NULL_BLOCK, block)
    for waste, of_workers in terms.items():
        yield Wasted(
            waste=waste,
            formula=_formula(waste, of_workers, "" if len(memories) == 1 else "all workers"),
            of_bytes=available,
            of_a_request=False,
        )
