"""A gate as Markdown, for a comment on a change."""

from __future__ import annotations

from typing import Final

from kvplan_cli.report.gate_document import DeploymentDocument, GateDocument
from kvplan_cli.report.gate_words import (
    UNPLANNED,
    answer,
    fault_text,
    figure,
    label,
    margin,
    percent,
    title,
    verdict,
)
from kvplan_cli.report.sweep_rows import escaped

# A comment that a later run finds again and replaces.
MARK: Final = "<!-- kvplan gate -->"
# A comment may hold 65,536 characters; what fails stands first.
_MOST_ROWS: Final = 200
_MOST_FAULTS: Final = 50


def markdown(document: GateDocument) -> str:
    """A table for a comment: what fails first, since a reader may see no more."""
    passed = document.exit_code == 0
    lines = [MARK, f"### kvplan gate: {'passed' if passed else 'failed'}", ""]
    rows = [
        (_rank(deployment, holds=each.holds), cells)
        for deployment in document.deployments
        for each in deployment.expectations
        for cells in [
            (
                escaped(title(deployment)),
                label(each),
                figure(each.required, each.unit),
                figure(each.actual, each.unit),
                " ".join(filter(None, [margin(each), percent(each)])),
                verdict(each) if each.holds else f"**{verdict(each)}**",
            )
        ]
    ]
    if rows:
        lines += ["| deployment | expectation | required | actual | margin | |"]
        lines += ["|---|---|---:|---:|---:|---|"]
        ordered = sorted(rows, key=lambda row: row[0])
        lines += [f"| {' | '.join(cells)} |" for _, cells in ordered[:_MOST_ROWS]]
        lines.append("")
    if len(rows) > _MOST_ROWS:
        lines += [f"{len(rows) - _MOST_ROWS:,} more rows are left out.", ""]
    broken = [each for each in document.deployments if each.planned is None]
    for deployment in broken[:_MOST_FAULTS]:
        lines.append(f"**{escaped(title(deployment))}**: {UNPLANNED[deployment.state]}")
        lines += [f"- {escaped(fault_text(fault))}" for fault in deployment.faults[:_MOST_FAULTS]]
        lines.append("")
    if len(broken) > _MOST_FAULTS:
        lines += [f"{len(broken) - _MOST_FAULTS:,} more are not planned.", ""]
    lines.append(escaped(answer(document)))
    return "".join(f"{line}\n" for line in lines)


def _rank(deployment: DeploymentDocument, *, holds: bool) -> int:
    return int(holds) + int(deployment.state == "holds")
