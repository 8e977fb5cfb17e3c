"""One request in one group of one worker, shared out: what it reads, and what it does not."""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.formulas.arithmetic import (
    Expression,
    floor,
    minus,
    named,
    over,
    plain,
    plus,
    times,
    worked_out,
)
from kvplan_cli.formulas.blocks import BLOCK_BYTES
from kvplan_cli.formulas.figures import Planned
from kvplan_cli.formulas.pages import content_expression
from kvplan_cli.formulas.requests import held_tokens
from kvplan_cli.grouping.group import KVCacheGroup, device_groups
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.sizing import blocks_per_request
from kvplan_cli.specs import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    HiSparseHotSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    MambaCacheMode,
    MambaSpec,
    SlidingWindowSpec,
)
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs
from kvplan_cli.values import dataclass

_LOCAL = (SlidingWindowSpec, ChunkedLocalAttentionSpec)
_IN_FLIGHT = (*_LOCAL, HiSparseResidentSpec)
_WITHOUT_TOKENS = (MambaSpec, CircularBufferSpec, HiSparseHotSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Pages of equal layers, in bytes. copies: tensor parallel ranks that hold the same.

    reach: tokens that the layers read, where they keep more because they are stored like full
    attention.
    """

    layers: int
    size: int
    content: int
    copies: int
    reach: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Blocks of one request in one group, in bytes of one worker.

    held: tokens that the request is counted with, None for states and rings. settled: of these,
    those held with one token in flight. num_state_copies: blocks of states beside the one in use.
    """

    num_blocks: int
    block_bytes: int
    block_size: int
    pages: tuple[Page, ...]
    held: Expression | None
    settled: Expression | None
    num_state_copies: int

    @property
    def size(self) -> int:
        """Bytes of all the blocks."""
        return self.num_blocks * self.block_bytes

    def page_padding(self) -> Expression | None:
        """Bytes of pages above their content."""
        padded = [
            times(
                named("layers", page.layers),
                minus(named("page", page.size), named("content", page.content)),
            )
            for page in self.pages
            if page.size > page.content
        ]
        return times(self._blocks, plus(*padded)) if padded else None

    def padding_layers(self) -> Expression:
        """Bytes of the blocks beside the group's pages."""
        pages = [times(named("layers", p.layers), named("page", p.size)) for p in self.pages]
        return times(self._blocks, minus(named(BLOCK_BYTES, self.block_bytes), *pages))

    def block_rounding(self) -> Expression | None:
        """Slots of the blocks that no token is counted for."""
        if self.held is None:
            return None
        slots = times(self._blocks, named("block_size", self.block_size))
        return self._bytes_of(minus(slots, self.held), self.pages)

    def in_flight(self) -> Expression | None:
        """Slots for the tokens of steps that are under way."""
        if self.held is None or self.settled is None:
            return None
        return self._bytes_of(minus(self.held, self.settled), self.pages)

    def state_copies(self) -> Expression | None:
        """States beside the one in use, for prefixes to be found again."""
        if not self.num_state_copies:
            return None
        return times(named("state copies", self.num_state_copies), _content(self.pages))

    def kept_like_full(self) -> Expression | None:
        """Tokens that a window or a chunk has left behind, and that stay."""
        terms = [
            self._bytes_of(minus(self.held, page.reach), (page,))
            for page in self.pages
            if self.held is not None and page.reach is not None
        ]
        return plus(*terms) if terms else None

    def replicas(self) -> Expression | None:
        """Of what the request reads: the part that is another rank's as well."""
        read: dict[int, list[Expression]] = {}
        for page in self.pages:
            if page.copies > 1:
                read.setdefault(page.copies, []).append(self._read(page))
        terms = [_held_elsewhere(plus(*parts), copies) for copies, parts in read.items()]
        return plus(*terms) if terms else None

    def _read(self, page: Page) -> Expression:
        """Bytes of equal layers that the request reads."""
        if self.held is None:
            blocks = named("blocks in use", self.num_blocks - self.num_state_copies)
            return times(blocks, _content((page,)))
        tokens = page.reach or self.settled or self.held
        return self._bytes_of(tokens, (page,))

    @property
    def _blocks(self) -> Expression:
        return named("blocks", self.num_blocks)

    def _bytes_of(self, tokens: Expression, pages: tuple[Page, ...]) -> Expression:
        """Bytes of so many slots in these layers."""
        return floor(over(times(tokens, _content(pages)), named("block_size", self.block_size)))


def _held_elsewhere(read: Expression, copies: int) -> Expression:
    """The part of what equal ranks hold that all but one of them could do without."""
    ranks = named("copies", copies)
    return floor(over(times(read, minus(ranks, plain(1))), ranks))


def _content(pages: tuple[Page, ...]) -> Expression:
    """Bytes that the pages of a block hold; none for a group without a layer on the stage."""
    if not pages:
        return plain(0)
    return plus(*(times(named("layers", p.layers), named("content", p.content)) for p in pages))


def shares(planned: Planned) -> tuple[Share, ...]:
    """The groups of each worker in turn."""
    return tuple(
        _share(group, planned, worker)
        for worker, memory in enumerate(planned.memories)
        for group in device_groups(memory.groups)
    )


def _share(group: KVCacheGroup, planned: Planned, worker: int) -> Share:
    limits, length = planned.settings.request_limits, planned.length
    spec = group.scheduler_spec
    held = settled = None
    if not isinstance(spec, _WITHOUT_TOKENS):
        held = _counted("tokens held", held_tokens(spec, length, limits))
    if isinstance(spec, _IN_FLIGHT):
        one = replace(limits, max_in_flight_tokens=1)
        settled = _counted("held with one in flight", held_tokens(spec, length, one))
    return Share(
        num_blocks=blocks_per_request(group, length.tokens, limits),
        block_bytes=planned.memories[worker].bytes_per_block,
        block_size=group.block_size,
        pages=_pages(group, planned, worker),
        held=held,
        settled=settled,
        num_state_copies=_state_copies(spec, planned.settings),
    )


def _counted(name: str, tokens: Expression) -> Expression:
    """Tokens as a number with a name: how they are counted stands with a request's blocks."""
    return named(name, worked_out(tokens))


def _state_copies(spec: KVCacheSpec, settings: PlannerSettings) -> int:
    if isinstance(spec, MambaSpec) and settings.mamba_cache_mode is MambaCacheMode.ALIGN:
        return 1 + spec.num_prefill_checkpoint_blocks
    return 0


def _pages(group: KVCacheGroup, planned: Planned, worker: int) -> tuple[Page, ...]:
    """The group's pages on one worker, equal layers together."""
    counts: dict[Page, int] = {}
    for name in group.layer_names:
        spec = group.spec
        if isinstance(spec, UniformTypeKVCacheSpecs):
            spec = spec.kv_cache_specs[name]
        own = planned.workers[worker].get(name)
        page = Page(
            layers=1,
            size=spec.page_size_bytes,
            content=int(worked_out(content_expression(spec))),
            copies=_copies(spec, planned.heads_of(name, spec), planned.settings),
            reach=None if own is None else _reach(spec, own, planned),
        )
        counts[page] = counts.get(page, 0) + 1
    return tuple(replace(page, layers=number) for page, number in counts.items())


def _reach(spec: KVCacheSpec, own: KVCacheSpec, planned: Planned) -> Expression | None:
    """Tokens that a layer reads, where its group keeps more than its own spec asks for."""
    if not isinstance(own, _LOCAL) or isinstance(spec, _LOCAL):
        return None
    tokens = held_tokens(own, planned.length, planned.settings.request_limits)
    return _counted("held by a window", tokens)


def _copies(spec: KVCacheSpec, kv_heads: int | None, settings: PlannerSettings) -> int:
    """Tensor parallel ranks that hold the same of this layer."""
    ranks = settings.tensor_parallel_size
    if isinstance(spec, MambaSpec):
        return ranks if spec.tp_replicated else 1
    if kv_heads is None:
        return 1
    # Ranks that keep other heads, and ranks that keep other tokens, keep other content.
    shards = kv_heads * (settings.decode_context_parallel_size if spec.dcp_sharded else 1)
    return max(1, ranks // shards)
