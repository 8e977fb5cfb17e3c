"""Deployments held against what their files expect: all of them, whatever becomes of some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, KvplanError, Problem
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.lines import Lines
from kvplan_cli.loader.plan_chain import Choice, PlanChain, read_chain
from kvplan_cli.loader.plan_files import NamedFile, find_files
from kvplan_cli.loader.problems import nearest, shown
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.recall import Recall
from kvplan_cli.results import FitRequest, Notice, NoticeKind
from kvplan_cli.results_gate import (
    Deployment,
    Fault,
    GateRequest,
    GateResult,
    Planned,
    State,
)
from kvplan_cli.results_solve import End
from kvplan_cli.service.expectations import Outcomes, Start, check_all
from kvplan_cli.service.fit import Answer, answer_for, check_profile_of, notices_of
from kvplan_cli.service.inputs import NO_MEMORY, Inputs, read_inputs
from kvplan_cli.service.recalling import recalling
from kvplan_cli.values import dataclass

T = TypeVar("T")

_NOT_OF_A_GATE: Final = "expectations_not_checked"
_MEMORY_KEYS: Final = "a key of the file: gpu: h100, or gpu-mem:, kv-mem:, from-log:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One deployment to check, or the error that stands in its place.

    paths: the file and those it extends.
    """

    path: Path
    choice: Choice
    paths: tuple[Path, ...]
    error: Exception | None = None


def gate(request: GateRequest, progress: Callable[[int, int], None] | None = None) -> GateResult:
    """Plan and check every deployment of every file.

    progress: told how many are done, and of how many. What can't be planned is a deployment with
    its faults. Raises: InputError where the call itself is wrong.
    """
    bases: list[str] = []
    jobs = list(_jobs(request, bases))
    checker = _Checker(on=request.on)
    checked = []
    for job in jobs:
        checked.append(checker.checked(job))
        if progress is not None:
            progress(len(checked), len(jobs))
    if not checked:
        reason = "every file found only stands beneath others (base-only: true)"
        raise InputError(Problem(where="FILE", reason=reason, way_out="name a file to check"))
    return GateResult(deployments=tuple(checked), bases=tuple(bases), on=request.on)


def _jobs(request: GateRequest, bases: list[str]) -> Iterator[_Job]:
    """Every deployment in every environment that is asked for; files that are bases apart."""
    read: list[tuple[Path, PlanChain | Exception]] = []
    for file in find_files(request.files):
        try:
            chain = _chain(file)
        except Exception as error:
            read.append((file.path, error))
            continue
        if chain is None:
            bases.append(place(file.path))
        else:
            read.append((file.path, chain))
    chains = [each for _, each in read if isinstance(each, PlanChain)]
    _check_names(request, chains)
    for path, each in read:
        if isinstance(each, PlanChain):
            yield from _of_file(path, each, request)
        else:
            yield _Job(path=path, choice=Choice(), paths=(path,), error=each)


def _chain(file: NamedFile) -> PlanChain | None:
    """A file with its bases; None for one that a pattern found and that is only a base."""
    if file.error is not None:
        raise file.error
    chain = read_chain(file.path)
    is_manifest = chain.files[-1].served is not None
    if not is_manifest and not chain.is_base_only:
        return chain
    if file.by_pattern:
        return None
    name = place(file.path)
    if is_manifest:
        raise InputError(
            Problem(
                where=name,
                reason="it holds serve commands, but says nothing of what is expected",
                way_out=f"kvplan gate --init FILE {name} writes a plan file for one of them; "
                f"or write one with extends: {name}, service: and expect:",
            )
        )
    reason = "the file only stands beneath others: there is nothing to check"
    way_out = "name those that extend it"
    raise InputError(Problem(where=f"{name}: base-only", reason=reason, way_out=way_out))


def _of_file(path: Path, chain: PlanChain, request: GateRequest) -> Iterator[_Job]:
    """What is asked for of a file; a part that it does not have is told by whoever reads it."""
    paths = tuple(dict.fromkeys([path, *(part.path for part in reversed(chain.files))]))
    try:
        names = chain.deployments()
        for deployment in (request.deployments or names) if names else (None,):
            known = deployment if deployment in names else None
            environments = chain.environments(known)
            for environment in (request.environments or environments) if environments else (None,):
                choice = Choice(deployment=deployment, environment=environment)
                yield _Job(path=path, choice=choice, paths=paths)
    except InputError as error:
        yield _Job(path=path, choice=Choice(), paths=paths, error=error)


def _check_names(request: GateRequest, chains: Sequence[PlanChain]) -> None:
    """A name that no file has is a slip of the call. Raises: InputError."""
    deployments: dict[str, None] = {}
    environments: dict[str, None] = {}
    for chain in chains:
        try:
            names = chain.deployments()
            deployments.update(dict.fromkeys(names))
            for deployment in names or (None,):
                environments.update(dict.fromkeys(chain.environments(deployment)))
        except InputError:
            # Told where the file itself is read.
            continue
    for noun, wanted, known in (
        ("environment", request.environments, environments),
        ("deployment", request.deployments, deployments),
    ):
        missing = next((name for name in wanted if name not in known), None)
        if missing is not None:
            near = nearest(missing, known)
            listed = f"known: {', '.join(list(known)[:12])}" if known else f"drop --{noun}"
            raise InputError(
                Problem(
                    where=f"--{noun}",
                    reason=f"no file has the {noun} {shown(missing)}",
                    way_out=f"did you mean {near}?" if near else listed,
                )
            )


class _Checker:
    """What the checks of one call share: steps that need not be taken again, and lines.

    met: objects of earlier deployments, by what they are.
    """

    def __init__(self, on: End) -> None:
        self.on = on
        self.recall: Recall = recalling()
        self.lines = Lines()
        self.met: dict[str, list[Any]] = {}

    def checked(self, job: _Job) -> Deployment:
        """The deployment with its checks, or with its faults."""
        try:
            if job.error is not None:
                raise job.error
            return self._planned(job)
        except KvplanError as error:
            return self._faulty(job, State(error.kind), error.problems)
        except Exception as error:
            # A defect in one must not hide the answers of the others; it still ends as one.
            problem = Problem(
                where="kvplan",
                reason=f"{type(error).__name__}: {error}",
                way_out=f"a defect in kvplan: kvplan fit {place(job.path)} --debug tells more",
            )
            return self._faulty(job, State.DEFECT, (problem,))

    def _planned(self, job: _Job) -> Deployment:
        request = FitRequest(
            model=str(job.path),
            environment=job.choice.environment,
            deployment=job.choice.deployment,
        )
        inputs = self._with_met(read_inputs(request))
        check_profile_of(inputs)
        answer = answer_for(inputs, self.recall)
        outcomes = Outcomes(inputs=inputs, answer=answer, recall=self.recall)
        start = Start(path=job.path, line=self._line(job))
        checks = tuple(check_all(outcomes, self.on, self.lines, start))
        return Deployment(
            path=place(job.path),
            name=job.choice.deployment,
            environment=job.choice.environment,
            state=State.HOLDS if all(check.holds for check in checks) else State.FAILS,
            planned=_planned(inputs, answer, self.on),
            checks=checks,
            notices=tuple(_notices(inputs, answer, outcomes.at(self.on))),
        )

    def _with_met(self, inputs: Inputs) -> Inputs:
        """The inputs with the equal objects of earlier deployments: steps are found by those."""
        args = inputs.args
        objects = {
            name: self._met(name, value)
            for name in EngineArgs.__dataclass_fields__
            if isinstance(value := getattr(args, name), Mapping)
        }
        inputs = inputs.with_args(**objects)
        if inputs.source is None:
            return inputs
        return replace(inputs, source=self._met(str(inputs.source.origin), inputs.source))

    def _met(self, kind: str, value: T) -> T:
        met = self.met.setdefault(kind, [])
        if value in met:
            known: T = met[met.index(value)]
            return known
        met.append(value)
        return value

    def _line(self, job: _Job) -> int:
        """Where the deployment stands in its file: its part, else the model."""
        named = (("deployments", job.choice.deployment), ("environments", job.choice.environment))
        part = ".".join(f"{section}.{name}" for section, name in named if name is not None)
        keys = [part] if part else ["model", "layers", "extends"]
        found = (self.lines.of_key(job.path, key) for key in keys)
        return next((line for line in found if line is not None), 1)

    def _faulty(self, job: _Job, state: State, problems: Sequence[Problem]) -> Deployment:
        return Deployment(
            path=place(job.path),
            name=job.choice.deployment,
            environment=job.choice.environment,
            state=state,
            faults=tuple(self._fault(problem, job) for problem in problems),
        )

    def _fault(self, problem: Problem, job: _Job) -> Fault:
        found = self.lines.of_problem(problem, job.paths)
        path, line = (job.path, self._line(job)) if found is None else found
        # Flags are named by errors that the command line ends with as well.
        in_file = problem.where == NO_MEMORY
        return Fault(
            where=f"{place(job.path)}: memory" if in_file else problem.where,
            reason=problem.reason,
            way_out=_MEMORY_KEYS if in_file else problem.way_out,
            path=place(path),
            line=line,
        )


def _planned(inputs: Inputs, answer: Answer, on: End) -> Planned:
    target = answer.target
    certain = all(estimate.is_certain for estimate in answer.available)
    return Planned(
        model=inputs.name,
        model_origin=str(target.source.origin) if target.source else "plan file",
        architecture=target.architecture,
        engine_release=inputs.rules.release,
        gpu=inputs.gpu.name,
        gpu_assumed=inputs.gpu_assumed,
        gpus=inputs.args.num_gpus,
        decided_on=None if certain else on,
    )


def _notices(inputs: Inputs, answer: Answer, outcome: Plan | Refusal) -> Iterator[Notice]:
    for notice in notices_of(inputs, answer.target):
        if notice.code != _NOT_OF_A_GATE:
            yield notice
    if not inputs.expect:
        message = "Nothing is expected but that it fits: the file has no expect."
        yield Notice(kind=NoticeKind.NOTE, code="nothing_expected", message=message)
    for reason in dict.fromkeys(budget.measure_it for budget in answer.budgets):
        if reason is not None:
            message = f"The memory left for the cache is known as a range only: {reason}."
            yield Notice(kind=NoticeKind.WARNING, code="measure_it", message=message)
    for warning in outcome.warnings:
        yield Notice(kind=NoticeKind.WARNING, code=warning.kind.value, message=warning.message)
