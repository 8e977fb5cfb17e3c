"""The cache groups as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kvplan_cli.formulas.kinds import SPEC_WORDS
from kvplan_cli.report.document import FitDocument, GroupDocument, LayerSpecDocument
from kvplan_cli.report.grid import Column, Page, grid, needed_width
from kvplan_cli.report.words import count, folded, layer_runs, plural, printable

_COLUMNS: Final = (
    Column(title="group"),
    Column(title="kind", figures=False),
    Column(title="layers"),
    Column(title="block\ntokens"),
    Column(title="page\nbytes"),
    Column(title="blocks a\nrequest"),
)
# Whole names are shown beside the figures or beneath them, never broken inside a number.
_NAMES_COLUMN: Final = Column(title="layer names", figures=True, align="left")


def groups_table(document: FitDocument, page: Page) -> RenderableType:
    """One row a group; the layers as runs of their numbers, beneath where they are too long."""
    title = _title(document)
    rows = [_row(group) for group in document.groups]
    names = [", ".join(layer_runs(group.layer_names)) for group in document.groups]
    with_names = [(*row, name) for row, name in zip(rows, names, strict=True)]
    columns = (*_COLUMNS, _NAMES_COLUMN)
    if needed_width(columns, with_names, fold=False) <= page.width:
        return grid(title, columns, with_names, page)
    table = grid(title, _COLUMNS, rows, page)
    lines = [line for index, name in enumerate(names) for line in _names(index, name, page.width)]
    return Group(table, Text("Layers of the groups"), *map(Text, lines))


def _title(document: FitDocument) -> str:
    layers = sum(group.num_layers for group in document.groups)
    title = f"{plural(len(document.groups), 'group')} of {plural(layers, 'cached layer')}"
    shared = sum(stage.kv_shared_layers for stage in document.stages)
    if shared:
        title += f", {plural(shared, 'more layer')} on another layer's cache"
    backends: Counter[str] = Counter()
    for stage in document.stages:
        backends.update(stage.attention_backends)
    if len(backends) == 1:
        return f"{title}, {next(iter(backends))}"
    return ", ".join([title, *(f"{name} {number}" for name, number in backends.items())])


def _names(index: int, name: str, width: int) -> Iterator[str]:
    head = f"{index:>5}   "
    for line in folded(printable(name), width - len(head)):
        yield head + line
        head = " " * len(head)


def _row(group: GroupDocument) -> tuple[str, ...]:
    return (
        str(group.group),
        _kind(group),
        count(group.num_layers),
        count(group.block_size_tokens),
        count(group.page_size_bytes),
        count(group.blocks_per_request),
    )


def _kind(group: GroupDocument) -> str:
    names = list(dict.fromkeys(_spec_kind(spec) for spec in group.layer_specs))
    words = [" and ".join(names)]
    if group.kind == "UniformTypeKVCacheSpecs":
        words.append("page of all layers")
    if group.holds_drafter_layers:
        words.append("drafter")
    if group.host_resident:
        words.append("on the host")
    return ", ".join(words)


def _spec_kind(spec: LayerSpecDocument) -> str:
    name = SPEC_WORDS.get(spec.kind, spec.kind)
    if spec.sliding_window_tokens is not None:
        name += f" {count(spec.sliding_window_tokens)}"
    if spec.attention_chunk_size_tokens is not None:
        name += f" {count(spec.attention_chunk_size_tokens)}"
    return name
