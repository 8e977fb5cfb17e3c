"""A diff as Markdown, for a comment on a change."""

from __future__ import annotations

from typing import Final

from kvplan_cli.report.diff_document import DiffDocument
from kvplan_cli.report.diff_words import HEADINGS, answer, label, percent, side, signed, value
from kvplan_cli.report.sweep_rows import escaped

# A comment that a later run finds again and replaces.
MARK: Final = "<!-- kvplan diff -->"


def markdown(document: DiffDocument) -> str:
    """The sentence first, since a reader may see no more; then a table of all changes."""
    lines = [MARK, f"### kvplan diff: {escaped(answer(document))}", ""]
    lines += [f"- {escaped(side('a', document.a))}", f"- {escaped(side('b', document.b))}", ""]
    if document.changes:
        lines += ["| | | a | b | change | |", "|---|---|---:|---:|---:|---|"]
    part = ""
    for each in document.changes:
        heading = f"**{HEADINGS[each.part]}**" if each.part != part else ""
        part = each.part
        moved = " ".join(filter(None, [signed(each), percent(each)]))
        cells = [
            heading,
            escaped(label(each)),
            escaped(value(each, each.a)),
            escaped(value(each, each.b)),
            moved,
            f"**{each.effect}**" if each.effect == "worse" else each.effect or "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    told = [
        f"- {heading}: {notice.kind}: {escaped(notice.message)}"
        for heading, notices in (
            ("only a", document.notices_gone),
            ("only b", document.notices_new),
        )
        for notice in notices
    ]
    if told:
        lines += [""] * bool(document.changes) + told
    return "".join(f"{line}\n" for line in lines)
