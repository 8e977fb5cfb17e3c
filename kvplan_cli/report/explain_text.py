"""Why a plan is as it is, for people: figures worked out, maps, waste, changes, the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kvplan_cli.report.answer import answer
from kvplan_cli.report.explain_document import (
    ChangeDocument,
    ExplainDocument,
    FormulaDocument,
    StandingDocument,
    WasteDocument,
)
from kvplan_cli.report.grid import Column, Page, grid, needed_width
from kvplan_cli.report.groups_table import groups_table
from kvplan_cli.report.ladder import memory_section
from kvplan_cli.report.measured_table import measured_table
from kvplan_cli.report.memory_map import memory_maps
from kvplan_cli.report.sheet import drawn
from kvplan_cli.report.tables import input_line
from kvplan_cli.report.words import count, printable, requests
from kvplan_cli.units import MIB

# Wide enough for what a change costs beside its figures.
_WIDTH_FOR_COSTS: Final = 110
_INDENT: Final = "  "
# Percent below which waste is named, but not worked out on the page.
_LEAST_WASTE: Final = 0.5

WASTE_WORDS: Final = {
    "page_padding": ("padding of pages", "pages raised so that unlike layers share a block"),
    "padding_layers": ("padding layers", "groups narrower than the block they hold"),
    "block_rounding": ("rounding to blocks", "slots of its last blocks that stay empty"),
    "in_flight_reserve": ("in-flight reserve", "room in windows and chunks for steps under way"),
    "state_copies": ("copies of states", "states kept so that prefixes are found again"),
    "windows_kept_like_full": ("windows kept like full", "tokens that no window reads any more"),
    "replicas": ("replicas", "keys, values or latents that other TP ranks hold as well"),
    "unused_on_other_workers": (
        "unused on other workers",
        "the limiting worker holds fewer blocks",
    ),
    "left_over": ("left over", "less than a whole block"),
    "null_block": ("null block", "never handed out"),
}


def render_explain(document: ExplainDocument, page: Page) -> str:
    """The whole text, ending in a line feed."""
    return drawn(list(_sections(document, page)), closing(document), page)


def _sections(document: ExplainDocument, page: Page) -> Iterator[RenderableType]:
    fit = document.fit
    yield Text(input_line(fit))
    if fit.groups:
        yield groups_table(fit, page)
    if fit.measured is not None:
        yield measured_table(fit.measured, page)
    if fit.budgets:
        yield from memory_section(fit, page)
    if document.figures:
        yield _figures(document, page)
    yield from memory_maps(document.maps, of_end(document), page)
    if document.waste:
        yield _waste(document, page)
    yield from _changes(document, page)
    for notice in sorted(fit.notices, key=lambda notice: notice.kind):
        yield Text(f"{notice.kind.capitalize()}: {printable(notice.message)}")


def of_end(document: ExplainDocument) -> str:
    """Which end of an estimated memory the page speaks of; nothing where it is certain."""
    fit = document.fit
    if all(part.low == part.high for part in fit.available_bytes_per_worker):
        return ""
    return f", at the {fit.verdict.decided_on} end of the memory"


def _figures(document: ExplainDocument, page: Page) -> RenderableType:
    """Each figure: with names, with numbers, and whose rule it is."""
    figures = shown_figures(document)
    lines = [line for figure in figures for line in _worked_out(figure, page.width)]
    return Group(Text("Figures", style="bold"), *map(Text, lines))


def shown_figures(document: ExplainDocument) -> list[FormulaDocument]:
    """The plan's figures, and waste that is worth a line; the JSON holds the rest as well."""
    large = [waste for waste in document.waste if waste.percent >= _LEAST_WASTE]
    return [*document.figures, *(waste.worked_out for waste in large)]


def _worked_out(figure: FormulaDocument, width: int) -> Iterator[str]:
    of = f" ({figure.of})" if figure.of else ""
    unit = figure.unit.removesuffix("s") if figure.result == 1 else figure.unit
    if figure.bound is not None:
        unit += f" ({figure.bound.name})"
    note = f"; {figure.note}" if figure.note else ""
    numbers = f"= {figure.with_values} {unit}"
    texts = [f"= {figure.formula}", numbers] if figure.formula != figure.source else [numbers]
    yield from _folded(f"{figure.name}{of}", width, "")
    for text in texts:
        yield from _folded(text, width, _INDENT)
    yield from _folded(f"{figure.source}{note}", width, _INDENT * 2)


def _folded(text: str, width: int, indent: str) -> list[str]:
    """Lines of at most ``width`` where no number and no name is broken."""
    return wrap(
        printable(text),
        max(width, 20),
        initial_indent=indent,
        subsequent_indent=f"{indent}{_INDENT}",
        break_long_words=False,
        break_on_hyphens=False,
    )


_WASTE_COLUMNS: Final = (
    Column(title="", figures=False),
    Column(title="MiB"),
    Column(title="%"),
    Column(title="of", align="left"),
    Column(title="what it is", figures=False),
)


def _waste(document: ExplainDocument, page: Page) -> RenderableType:
    rows = [
        (WASTE_WORDS[waste.kind][0], *waste_cells(waste), WASTE_WORDS[waste.kind][1])
        for waste in document.waste
    ]
    return grid("Waste, each byte counted once", _WASTE_COLUMNS, rows, page)


def waste_cells(waste: WasteDocument) -> tuple[str, str, str]:
    """Its MiB, its share in percent, and of what."""
    whole = "a request" if waste.whole == "request" else "the memory"
    return f"{waste.size_bytes / MIB:,.2f}", f"{waste.percent:.2f}", whole


_CHANGE_COLUMNS: Final = (
    Column(title="", align="left"),
    Column(title="requests\nat a time"),
    Column(title="tokens"),
    Column(title="longest\ncontext"),
    Column(title="cards"),
)
_COST_COLUMN: Final = Column(title="costs", figures=False)


def _changes(document: ExplainDocument, page: Page) -> Iterator[RenderableType]:
    """The best value of each flag that helps; then what does not."""
    better = best_of_each(document.changes)
    if not better:
        yield Text("No flag that was tried holds more.")
    else:
        yield _change_table(document.now, better, of_end(document), page)
    together = next((c for c in document.changes if c.together and c.effect == "better"), None)
    if together is not None and together.standing is not None:
        yield Text(f"Together: {_holds(together, together.standing)}.")
    yield from _without_effect(document.changes, {change.flag for change in better})


def best_of_each(changes: Sequence[ChangeDocument]) -> list[ChangeDocument]:
    """Of the changes that help the best value of each flag, best first."""
    best: dict[str, ChangeDocument] = {}
    for change in changes:
        if change.effect == "better" and not change.together:
            best.setdefault(change.flag, change)
    return list(best.values())


def _change_table(
    now: StandingDocument, better: Sequence[ChangeDocument], of_end: str, page: Page
) -> RenderableType:
    title = f"Flags that would hold more, best first{of_end}"
    rows = [("now", *standing_cells(now), "")]
    rows += [(c.typed, *standing_cells(c.standing), c.cost) for c in better if c.standing]
    columns = (*_CHANGE_COLUMNS, _COST_COLUMN)
    if page.width >= _WIDTH_FOR_COSTS and needed_width(columns, rows) <= page.width:
        return grid(title, columns, rows, page)
    table = grid(title, _CHANGE_COLUMNS, [row[:-1] for row in rows], page)
    costs = [line for c in better for line in _folded(f"{c.typed}: {c.cost}", page.width, "")]
    return Group(table, Text("What they cost"), *map(Text, costs))


def standing_cells(standing: StandingDocument) -> tuple[str, ...]:
    """Requests at a time, tokens, longest context and cards."""
    return (
        requests(standing.max_concurrency_requests) if standing.fits else "none",
        count(standing.kv_cache_size_tokens),
        count(standing.longest_context_tokens),
        count(standing.gpus),
    )


def _holds(change: ChangeDocument, standing: StandingDocument) -> str:
    if not standing.fits:
        return (
            f"{change.typed} does not fit yet, the longest context is "
            f"{count(standing.longest_context_tokens)} tokens"
        )
    return (
        f"{change.typed} holds {requests(standing.max_concurrency_requests)} requests of "
        f"{count(standing.max_model_len_tokens)} tokens at a time "
        f"({count(standing.kv_cache_size_tokens)} tokens)"
    )


def _without_effect(changes: Sequence[ChangeDocument], shown: set[str]) -> Iterator[RenderableType]:
    """Flags of which no value helps, and those that the engine refuses here."""
    others = [c for c in changes if c.flag not in shown and not c.together]
    useless = dict.fromkeys(c.flag for c in others if c.effect == "no_better")
    if useless:
        yield Text(f"Would not hold more: {', '.join(useless)}.")
    refused = {c.flag: c for c in reversed(others) if c.effect == "unplanned"}
    for flag, change in refused.items():
        if flag not in useless:
            reason = printable(change.reason or "").rstrip(".")
            yield Text(f"Not possible here: {change.typed} ({reason}).")


def closing(document: ExplainDocument) -> str:
    """The answer of ``fit``, and what holds most: at all, and at the cost of speed alone."""
    return f"{answer(document.fit)} {_advice(document)}"


def _advice(document: ExplainDocument) -> str:
    best, now = best_of_each(document.changes), document.now
    same = [c for c in best if c.standing and c.standing.gpus == now.gpus] or best
    if not same:
        return "No flag that was tried holds more."
    advice = [_gain(same[0], now)]
    cheap = next((c for c in same if c.price == "speed"), same[0])
    worth = cheap.standing is not None and cheap.standing.fits
    if worth and cheap is not same[0]:
        advice.append(f"at the cost of speed alone with {_gain(cheap, now)}")
    return f"Most is held with {'; '.join(advice)}."


def _gain(change: ChangeDocument, now: StandingDocument) -> str:
    """What one change holds, in place of what is held now."""
    then = change.standing
    if then is None:
        raise ValueError("only a planned change has a gain")
    if not then.fits:
        longest = count(then.longest_context_tokens)
        return f"{change.typed} (it does not fit yet: at most {longest} tokens; {change.cost})"
    many = f"{requests(then.max_concurrency_requests)} requests"
    if then.max_model_len_tokens != now.max_model_len_tokens or not now.fits:
        many += f" of {count(then.max_model_len_tokens)} tokens"
    instead = f" instead of {requests(now.max_concurrency_requests)}" if now.fits else ""
    return f"{change.typed} ({many} at a time{instead}; {change.cost})"
