"""``kvplan verify`` for people: a row a figure, the reasons, and the answer in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.sheet import drawn
from kvplan_cli.report.verify_document import ComparisonDocument, VerifyDocument
from kvplan_cli.report.words import UNKNOWN, gib, plural, printable
from kvplan_cli.units import GIB

_WORDS: Final = {
    "available": "available for the cache, GiB",
    "weights": "weights, GiB",
    "consumed": "weights, buffers, outside, GiB",
    "activation": "peak of the profile run, GiB",
    "non_torch": "outside torch, GiB",
    "graphs_estimated": "CUDA graphs as estimated, GiB",
    "tokens": "tokens",
    "concurrency": "requests at a time",
    "gpu_blocks": "blocks",
    "needed": "needed by one request, GiB",
    "estimated_length": "estimated longest context, tokens",
    "fitted_length": "fitted context, tokens",
    "attention_block": "attention block, tokens",
    "mamba_padding": "padding of state pages, %",
}
_AGREEMENTS: Final = {
    "equal": "equal",
    "within_rounding": "within rounding",
    "in_range": "in range",
    "off": "off",
    "not_predicted": UNKNOWN,
}
_GIB_DECIMALS: Final = 2
_COLUMNS: Final = (
    Column(title="", figures=False),
    Column(title="line"),
    Column(title="printed"),
    Column(title="predicted"),
    Column(title="result", align="left"),
)


def render_verify(document: VerifyDocument, page: Page) -> str:
    """The whole text, ending in a line feed."""
    sections: list[RenderableType] = [Text(_input_line(document))]
    sections.append(grid("Printed and predicted", _COLUMNS, list(_rows(document)), page))
    reasons = list(_reasons(document))
    if reasons:
        sections.append(Text("\n".join(reasons)))
    notices = [
        f"{notice.kind.capitalize()}: {printable(notice.message)}" for notice in document.notices
    ]
    if notices:
        sections.append(Text("\n".join(notices)))
    return drawn(sections, _answer(document), page)


def _input_line(document: VerifyDocument) -> str:
    log, model = document.log, document.model
    release = f"vLLM {log.release}" if log.release else "a release that it does not tell"
    return printable(
        f"{log.name}: {model.name} ({model.architecture}), {release}, by the rules of {log.rules}"
    )


def _rows(document: VerifyDocument) -> Iterator[tuple[str, ...]]:
    several = len({each.process for each in document.comparisons if each.process}) > 1
    for each in document.comparisons:
        name = _WORDS.get(each.figure, each.figure)
        if several and each.process:
            name = f"{name}, {each.process}"
        yield (
            name,
            str(each.line),
            each.printed,
            _predicted(each),
            _AGREEMENTS[each.agreement],
        )


def _predicted(each: ComparisonDocument) -> str:
    """One figure, or both ends of a range with the likely one before them."""
    found = each.predicted
    if found is None:
        return UNKNOWN
    low, likely, high = (_words(each, end) for end in found)
    if low == high:
        return likely
    if each.agreement in ("in_range", "off") and each.unit == "bytes":
        return f"{likely} ({low} - {high})"
    return f"{low} - {high}"


def _words(each: ComparisonDocument, value: int | float) -> str:
    """A value with as many decimals as its print has."""
    if each.unit in ("requests", "percent"):
        return f"{value:.2f}"
    if each.unit != "bytes":
        return f"{int(value):,}"
    decimals = len(each.printed.partition(".")[2])
    return f"{value / GIB:.{decimals}f}" if decimals > _GIB_DECIMALS else gib(int(value))


def _reasons(document: VerifyDocument) -> Iterator[str]:
    for each in document.comparisons:
        if each.reason is not None:
            name = _WORDS.get(each.figure, each.figure)
            word = "" if each.agreement != "off" else "off, likely: "
            yield printable(f"line {each.line}, {name}: {word}{each.reason}.")


def _answer(document: VerifyDocument) -> str:
    off = [each for each in document.comparisons if each.agreement == "off"]
    compared = [each for each in document.comparisons if each.agreement != "not_predicted"]
    if off:
        names = ", ".join(dict.fromkeys(_WORDS.get(each.figure, each.figure) for each in off))
        return f"{plural(len(off), 'figure')} of {len(compared)} off: {names}."
    if not compared:
        return "Nothing to compare: the log tells no figure that kvplan predicts."
    exact = sum(each.agreement != "in_range" for each in compared)
    estimates = len(compared) - exact
    tail = f", {estimates} inside the range of an estimate" if estimates else ""
    return f"All {len(compared)} figures agree: {exact} as printed{tail}."
