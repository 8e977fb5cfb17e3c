"""A diff's figures and sentences, as its formats say them."""

from __future__ import annotations

from typing import Final

from kvplan_cli.report.diff_document import ChangeDocument, DiffDocument, SideDocument
from kvplan_cli.report.document import Scalar
from kvplan_cli.report.words import UNKNOWN, plural, printable
from kvplan_cli.units import GIB

HEADINGS: Final = {
    "verdict": "Answer",
    "capacity": "Capacity",
    "memory": "Memory of a rank",
    "groups": "Cache groups",
    "settings": "Inputs and settings",
}


def label(change: ChangeDocument) -> str:
    """What differs, with its unit and the end of the memory where they matter."""
    unit = ", GiB" if change.unit == "bytes" else ""
    end = "" if change.end is None else f", {change.end}"
    return printable(f"{change.label}{unit}{end}")


def value(change: ChangeDocument, shown: Scalar) -> str:
    """One side's value."""
    if shown is None:
        return UNKNOWN
    if isinstance(shown, bool):
        return "yes" if shown else "no"
    if isinstance(shown, str):
        return printable(shown)
    return _number(shown, change.unit)


def _number(number: float, unit: str) -> str:
    if unit == "bytes":
        return f"{number / GIB:,.2f}"
    if isinstance(number, float):
        return f"{number:,.2f}"
    return f"{number:,}"


def signed(change: ChangeDocument) -> str:
    """The change with its sign; in bytes where two decimals of a GiB show none."""
    if change.change is None:
        return ""
    shown = _number(abs(change.change), change.unit)
    if change.unit == "bytes" and float(shown.replace(",", "")) == 0:
        shown = f"{abs(change.change):,} B"
    return f"{'-' if change.change < 0 else '+'}{shown}"


def percent(change: ChangeDocument) -> str:
    """The change as a part of the first value."""
    ratio = change.change_ratio
    if ratio is None:
        return ""
    size = abs(ratio) * 100
    return f"{'-' if ratio < 0 else '+'}{size:,.0f} %" if size >= 100 else f"{ratio * 100:+.1f} %"


def side(letter: str, document: SideDocument) -> str:
    """One of the two in a line."""
    words = [word for word in (document.model, document.gpu) if word]
    if document.engine_release:
        words.append(f"vLLM {document.engine_release}")
    if document.saved:
        made = f" by kvplan {document.kvplan_version}" if document.kvplan_version else ""
        words.append(f"saved{made}")
    return printable(f"{letter}: {document.name}: {', '.join(words)}")


def answer(document: DiffDocument) -> str:
    """The last sentence: what became of the answer, then of the requests."""
    if not document.differs:
        return "No difference."
    changes = {(change.key, change.end): change for change in document.changes}
    parts = [_verdict(document)]
    keys = ("verdict.max_concurrency_requests", "longest_context_tokens")
    for change in changes.values():
        if change.key in keys and change.end in (None, "likely"):
            before, after = (
                "none" if each is None else value(change, each) for each in (change.a, change.b)
            )
            sizes = f"{before} -> {after}"
            moved = ", ".join(filter(None, [signed(change), percent(change)]))
            parts.append(f"{change.label} {sizes}" + (f" ({moved})" if moved else ""))
    count = len(document.changes)
    verb = "differs" if count == 1 else "differ"
    if count:
        parts.append(f"{plural(count, 'figure')} {verb}")
    else:
        parts.append("only notices differ")
    return f"{'; '.join(parts)}."


def _verdict(document: DiffDocument) -> str:
    a, b = (_ANSWERS.get(each.answer or "", "?") for each in (document.a, document.b))
    return f"a and b: {a}" if a == b else f"a {a}, b {b}"


_ANSWERS: Final = {"fits": "fits", "does_not_fit": "does not fit", "depends": "depends"}
