"""The JSON contract of ``kvplan gate``."""

from typing import Annotated, Literal, NamedTuple

from kvplan_cli import __version__
from kvplan_cli.report.document import SCHEMA_VERSION, ModelDocument, NoticeDocument
from kvplan_cli.report.json_form import dumps
from kvplan_cli.results import Notice
from kvplan_cli.results_gate import Check, Deployment, Fault, GateResult, Planned, State, Unit

Figure = int | float | bool | None


class ExpectationDocument(NamedTuple):
    """One expectation held against the plan."""

    name: Annotated[str, "As expect: takes it; fits is expected of every deployment."]
    unit: Annotated[
        Literal["answer", "requests", "tokens", "blocks", "bytes", "cards", "fraction"],
        "What the figures count.",
    ]
    comparison: Annotated[
        Literal["at_least", "at_most"], "How the actual figure must stand to the required one."
    ]
    required: Annotated[Figure, "In the unit; null where it can't be had without a plan."]
    actual: Annotated[Figure, "In the unit; null where there is no such figure."]
    margin: Annotated[int | float | None, "What is to spare; below zero what is missing."]
    margin_ratio: Annotated[float | None, "The margin as a part of the required figure."]
    holds: Annotated[bool, "Whether it holds."]
    holds_on: Annotated[tuple[str, ...], "The ends of the memory at which it holds."]
    path: Annotated[str, "The file that demands it; for fits the deployment's."]
    line: Annotated[int | None, "The line in that file, from 1."]
    remark: Annotated[str | None, "Why the figure is what it is, where that is not plain."]


class FaultDocument(NamedTuple):
    """Why there is no plan."""

    where: Annotated[str, "The file and key path."]
    reason: Annotated[str, "What is wrong."]
    way_out: Annotated[str | None, "The legal values, the nearest name, or what to do."]
    path: Annotated[str, "The file to look at."]
    line: Annotated[int | None, "The line in it, from 1."]


class PlannedDocument(NamedTuple):
    """What was planned."""

    model: Annotated[ModelDocument, "The model."]
    engine_release: Annotated[str, "The vLLM release whose rules the plan follows."]
    gpu: Annotated[str, "The card whose rules decide."]
    gpu_assumed: Annotated[bool, "True when the file names no card."]
    gpus: Annotated[int, "Cards of the deployment: TP x PP x PCP x DP."]
    decided_on: Annotated[
        Literal["given", "low", "likely", "high"], "The memory: given, or this end of its estimate."
    ]


class DeploymentDocument(NamedTuple):
    """One deployment of one file in one environment."""

    path: Annotated[str, "The file as named."]
    deployment: Annotated[str | None, "Its name, where the file has several."]
    environment: Annotated[str | None, "The environment, where the file has some."]
    state: Annotated[
        Literal["holds", "fails", "wrong_input", "engine_refuses", "cannot_plan", "defect"],
        "What came of it; all but the first two have no plan.",
    ]
    exit_code: Annotated[int, "The exit code it would end with by itself."]
    planned: Annotated[PlannedDocument | None, "Null where there is no plan."]
    expectations: Annotated[tuple[ExpectationDocument, ...], "First fits, then as written."]
    faults: Annotated[tuple[FaultDocument, ...], "Why there is no plan, all at once."]
    notices: Annotated[tuple[NoticeDocument, ...], "Warnings and notes."]


class GateDocument(NamedTuple):
    """The whole answer of ``kvplan gate``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["gate"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    on: Annotated[Literal["low", "likely", "high"], "The end of an estimate that decides."]
    deployments_hold: Annotated[int, "Deployments of which every expectation holds."]
    deployments_fail: Annotated[int, "Deployments that miss some."]
    deployments_not_planned: Annotated[int, "Deployments without a plan."]
    deployments: Annotated[tuple[DeploymentDocument, ...], "In the order of the files."]
    bases: Annotated[
        tuple[str, ...],
        "Files found by a pattern that only stand beneath others: base-only ones and manifests.",
    ]
    exit_code: Annotated[int, "The process's exit code: the gravest of the deployments'."]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)


def gate_document(result: GateResult) -> GateDocument:
    """The contract's form of ``result``."""
    states = [each.state for each in result.deployments]
    hold, fail = states.count(State.HOLDS), states.count(State.FAILS)
    return GateDocument(
        schema_version=SCHEMA_VERSION,
        command="gate",
        kvplan_version=__version__,
        on=result.on.value,
        deployments_hold=hold,
        deployments_fail=fail,
        deployments_not_planned=len(states) - hold - fail,
        deployments=tuple(_deployment(each) for each in result.deployments),
        bases=result.bases,
        exit_code=int(result.exit_code),
    )


def _deployment(deployment: Deployment) -> DeploymentDocument:
    return DeploymentDocument(
        path=deployment.path,
        deployment=deployment.name,
        environment=deployment.environment,
        state=deployment.state.value,
        exit_code=int(deployment.state.exit_code),
        planned=None if deployment.planned is None else _planned(deployment.planned),
        expectations=tuple(_expectation(check) for check in deployment.checks),
        faults=tuple(_fault(fault) for fault in deployment.faults),
        notices=tuple(_notice(notice) for notice in deployment.notices),
    )


def _planned(planned: Planned) -> PlannedDocument:
    return PlannedDocument(
        model=ModelDocument(
            name=planned.model, origin=planned.model_origin, architecture=planned.architecture
        ),
        engine_release=planned.engine_release,
        gpu=planned.gpu,
        gpu_assumed=planned.gpu_assumed,
        gpus=planned.gpus,
        decided_on="given" if planned.decided_on is None else planned.decided_on.value,
    )


def _expectation(check: Check) -> ExpectationDocument:
    margin, required = check.margin, check.required
    answer = check.unit is Unit.ANSWER
    return ExpectationDocument(
        name=check.name,
        unit=check.unit.value,
        comparison="at_most" if check.at_most else "at_least",
        required=bool(required) if answer else required,
        actual=bool(check.actual) if answer else check.actual,
        margin=margin,
        margin_ratio=None if margin is None or not required else margin / required,
        holds=check.holds,
        holds_on=tuple(end.value for end in check.holds_on),
        path=str(check.path),
        line=check.line,
        remark=check.remark,
    )


def _fault(fault: Fault) -> FaultDocument:
    return FaultDocument(
        where=fault.where,
        reason=fault.reason,
        way_out=fault.way_out,
        path=fault.path,
        line=fault.line,
    )


def _notice(notice: Notice) -> NoticeDocument:
    return NoticeDocument(kind=notice.kind.value, code=notice.code, message=notice.message)
