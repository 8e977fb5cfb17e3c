"""A gate for people: a table a deployment, those that fail last, and the answer in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType

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
from kvplan_cli.report.grid import Column, Page, table
from kvplan_cli.report.sheet import Sentence, drawn_blocks
from kvplan_cli.report.words import plural, printable

_COLUMNS: Final = (
    Column(title="", figures=False),
    Column(title="required"),
    Column(title="actual"),
    Column(title="margin"),
    Column(title=""),
    Column(title="", figures=False),
)
# Deployments of which nothing more needs to be read come first.
_ORDER: Final = ("holds", "fails")


def render_gate(document: GateDocument, page: Page) -> str:
    """The whole text, ending in a line feed."""
    return drawn_blocks(list(_blocks(document, page)), answer(document), page)


def _blocks(document: GateDocument, page: Page) -> Iterator[list[RenderableType | Sentence]]:
    for deployment in sorted(document.deployments, key=_place):
        yield list(_deployment(deployment, page))
    if document.bases:
        bases = ", ".join(map(printable, document.bases))
        yield [Sentence(text=f"Not checked by themselves, since others extend them: {bases}")]
    notices = list(_notices(document.deployments))
    if notices:
        yield [*notices]


def _place(deployment: DeploymentDocument) -> int:
    state = deployment.state
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _deployment(deployment: DeploymentDocument, page: Page) -> Iterator[RenderableType | Sentence]:
    if deployment.planned is None:
        heading = f"{title(deployment)}: {UNPLANNED[deployment.state]}"
        yield Sentence(text=heading, style="bold red")
        for fault in deployment.faults:
            yield Sentence(text=f"  {fault_text(fault)}")
        return
    yield Sentence(text=_heading(deployment), style="bold")
    rows = [
        (
            label(each),
            figure(each.required, each.unit),
            figure(each.actual, each.unit),
            margin(each),
            percent(each),
            verdict(each),
        )
        for each in deployment.expectations
    ]
    yield table(_COLUMNS, rows, page)
    for each in deployment.expectations:
        if each.remark is not None:
            yield Sentence(text=f"  {each.name}: {printable(each.remark)}")


def _heading(deployment: DeploymentDocument) -> str:
    planned = deployment.planned
    assert planned is not None
    words = [
        planned.model.name,
        f"{plural(planned.gpus, 'card')}, {planned.gpu}{' (assumed)' * planned.gpu_assumed}",
        f"vLLM {planned.engine_release}",
    ]
    if planned.decided_on != "given":
        words.append(f"{planned.decided_on} end of the memory estimate")
    return f"{title(deployment)}: {printable(', '.join(words))}"


def _notices(deployments: Sequence[DeploymentDocument]) -> Iterator[Sentence]:
    """Each notice once, with how many deployments it is about."""
    about: dict[tuple[str, str], int] = {}
    for deployment in deployments:
        for notice in deployment.notices:
            key = (notice.kind.capitalize(), notice.message)
            about[key] = about.get(key, 0) + 1
    for (kind, message), count in about.items():
        many = f" ({plural(count, 'deployment')})" if len(deployments) > 1 else ""
        yield Sentence(text=f"{kind}: {printable(message)}{many}")
