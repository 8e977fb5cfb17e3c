"""Every combination of some flags' values, planned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import (
    EngineRefusalError,
    InputError,
    KvplanError,
    Problem,
    UnplannableError,
)
from kvplan_cli.planner.results import Refusal
from kvplan_cli.results_solve import End, Needs
from kvplan_cli.results_sweep import Axis, Row, State, SweepRequest, SweepResult, Value
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.service.needs import Trial, trial
from kvplan_cli.service.recalling import recalling
from kvplan_cli.service.target import Target

# Where each axis that is no flag stands in a request.
_REQUEST_FIELDS = {
    "gpu": "gpu",
    "gpu_mem": "gpu_mem_bytes",
    "kv_mem": "kv_mem_bytes",
    "weights": "weights_bytes",
}
_LISTS = ("kv_mem", "weights")
_NO_NEEDS = Needs()
_NOT_PLANNED = (State.UNPLANNABLE, State.WRONG)


def sweep(request: SweepRequest, progress: Callable[[int], None] | None = None) -> SweepResult:
    """Plan every point; an interrupt ends it and keeps what was done.

    progress: told the number of points done. Raises: InputError, UnplannableError where not one
    point can be planned.
    """
    points = _Points(request)
    rows: list[Row] = []
    try:
        for row in points.rows():
            rows.append(row)
            if progress is not None:
                progress(len(rows))
    except KeyboardInterrupt:
        # What was done is worth keeping; the caller says that it is not all.
        pass
    if points.error is not None and all(row.state in _NOT_PLANNED for row in rows):
        raise points.error
    target = points.target
    source = None if target is None else target.source
    return SweepResult(
        model=points.base.name,
        model_origin=str(source.origin) if source else "plan file",
        architecture=None if target is None else target.architecture,
        engine_release=points.base.rules.release,
        origins=points.base.origins,
        axes=request.axes,
        on=request.on,
        estimated=points.estimated,
        total=points.total,
        rows=tuple(rows),
        notices=points.base.notices,
    )


class _Points:
    """The points of one sweep, and what they have in common.

    target: of some point that was planned. error: of the first point that could not be.
    """

    def __init__(self, request: SweepRequest) -> None:
        self.request = request
        self.flags = [axis.is_flag for axis in request.axes]
        self.total = prod(len(axis.values) for axis in request.axes)
        given_later = any(not axis.is_flag for axis in request.axes) or any(
            axis.name == "kv_cache_memory_bytes" for axis in request.axes
        )
        self.base = read_inputs(request.fit, needs_memory=not given_later)
        self.recall = recalling()
        self.inputs: dict[tuple[Value, ...], Inputs] = {}
        self.target: Target | None = None
        self.estimated = False
        self.error: KvplanError | None = None

    def rows(self) -> Iterator[Row]:
        """A row a point, the last axis fastest."""
        for values in product(*(axis.values for axis in self.request.axes)):
            yield self._row(values)

    def _row(self, values: tuple[Value, ...]) -> Row:
        try:
            inputs = self._at(values)
            asked = trial(inputs, _NO_NEEDS, self.request.on, self.recall)
        except UnplannableError as error:
            return self._failed(values, State.UNPLANNABLE, error)
        except InputError as error:
            return self._failed(values, State.WRONG, error)
        if asked.refusal is not None:
            return self._failed(values, State.REFUSED, asked.refusal, inputs.args)
        self.target = asked.target
        self.estimated = self.estimated or any(not each.is_certain for each in asked.available)
        return _planned(values, inputs.args, asked, self.request.on)

    def _failed(
        self,
        values: tuple[Value, ...],
        state: State,
        error: KvplanError,
        args: EngineArgs | None = None,
    ) -> Row:
        self.error = self.error or error
        reason = error.message if isinstance(error, EngineRefusalError) else str(error)
        first_line = (reason.strip() or error.kind).split("\n")[0]
        return Row(
            values=values, state=state, gpus=(args or self.base.args).num_gpus, reason=first_line
        )

    def _at(self, values: tuple[Value, ...]) -> Inputs:
        """The inputs of one point: read once for each memory, then only the flags change."""
        axes = self.request.axes
        memory = tuple(
            value for value, is_flag in zip(values, self.flags, strict=True) if not is_flag
        )
        inputs = self.inputs.get(memory)
        if inputs is None:
            named = zip((axis for axis in axes if not axis.is_flag), memory, strict=True)
            inputs = self.inputs[memory] = self._on_memory(dict(_fields(named)))
        flags = {axis.name: value for axis, value in zip(axes, values, strict=True) if axis.is_flag}
        inputs = inputs.with_args(**flags)
        cards, stages = len(inputs.stage_gpus), inputs.args.pipeline_parallel_size
        if cards not in (1, stages):
            reason = f"{cards} cards for {stages} pipeline stages"
            raise InputError(Problem(where="--gpu", reason=reason))
        return inputs

    def _on_memory(self, fields: Mapping[str, object]) -> Inputs:
        if not fields:
            return self.base
        inputs = read_inputs(replace(self.request.fit, **fields))  # type: ignore[arg-type]
        # The same objects as before: steps are found again by them.
        return replace(inputs, source=self.base.source, layers=self.base.layers)


def _fields(named: Iterable[tuple[Axis, Value]]) -> Iterator[tuple[str, object]]:
    for axis, value in named:
        yield _REQUEST_FIELDS[axis.name], (value,) if axis.name in _LISTS else value


def _planned(values: tuple[Value, ...], args: EngineArgs, asked: Trial, on: End) -> Row:
    plan = asked.outcome
    available = min(getattr(estimate, on.value) for estimate in asked.available)
    if plan is None or isinstance(plan, Refusal):
        return Row(
            values=values,
            state=State.DOES_NOT_FIT,
            gpus=args.num_gpus,
            reason=None if asked.binding is None else asked.binding.message,
            available_bytes=available,
        )
    return Row(
        values=values,
        state=State.FITS,
        gpus=args.num_gpus,
        available_bytes=available,
        max_model_len=plan.max_model_len,
        num_blocks=plan.num_blocks,
        kv_cache_size_tokens=plan.kv_cache_size_tokens,
        max_concurrency=plan.max_concurrency,
    )
