"""A start-up log against the plan: what was printed beside what is predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import KvplanError, MissingFieldError
from kvplan_cli.loader.told import Told
from kvplan_cli.logs.printed import Figure, Printed
from kvplan_cli.logs.startup import ProcessFigures, StartupLog
from kvplan_cli.memory.budget import Estimate, RankBudget, Source
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import Plan
from kvplan_cli.results import FitRequest, Notice
from kvplan_cli.results_verify import Agreement, Comparison, Unit, VerifyResult
from kvplan_cli.service.available import estimated_budgets, estimated_weights
from kvplan_cli.service.compare import (
    Question,
    compare_capacity,
    compare_layers,
    compared_estimate,
)
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.service.measured import measured_available
from kvplan_cli.service.profiles import save_profile
from kvplan_cli.service.release import release_notice
from kvplan_cli.service.target import Target, completed, find_target
from kvplan_cli.service.told_notices import told_notices
from kvplan_cli.units import GIB

_ENOUGH: Final = 1 << 50
_NO_MEMORY: Final = "the log does not tell the memory for the cache"
_WEIGHTS_MARGIN: Final = int(0.03 * GIB)
_WEIGHTS_REASON: Final = "another layout of quantized weights, LoRA, a drafter or offloading"
_LADDER_REASON: Final = "no start of this kind is among those that the ranges were made from"


def verify(request: FitRequest) -> VerifyResult:
    """Compare what ``request.from_log`` printed with what kvplan predicts.

    Raises: InputError, UnplannableError, EngineRefusalError (kvplan_cli.errors).
    """
    inputs = read_inputs(request, needs_memory=False)
    told = inputs.told
    if told is None or told.log is None:
        raise AssertionError("verify reads a log")
    inputs, target = _target(inputs)
    log = told.log.log
    question = _question(inputs, target, told)
    comparisons = [*_memory(inputs, target, log), *_capacity(log, question)]
    comparisons.sort(key=lambda comparison: comparison.line)
    kept: tuple[Notice, ...] = ()
    if request.save_profile is not None:
        kept = (save_profile(request.save_profile, inputs, target.architecture),)
    return VerifyResult(
        log=told.log.name,
        log_release=told.measured.release,
        rules_release=inputs.rules.release,
        model=inputs.name,
        model_origin=str(target.source.origin) if target.source else "plan file",
        architecture=target.architecture,
        origins=inputs.origins,
        comparisons=tuple(comparisons),
        notices=(
            *inputs.notices,
            *told_notices(told, inputs.rules),
            *release_notice(target),
            *kept,
        ),
    )


def _target(inputs: Inputs) -> tuple[Inputs, Target]:
    """The target, with the config completed where weights need more of it than the cache."""
    target = find_target(inputs)
    for _ in range(2):
        try:
            estimated_weights(inputs, target)
        except MissingFieldError as missing:
            inputs = completed(inputs, target, missing)
            target = find_target(inputs)
        except KvplanError:
            break  # told with the figure itself
    return inputs, target


def _question(inputs: Inputs, target: Target, told: Told) -> Question | None:
    """None where the log leaves the memory open."""
    assert told.log is not None
    log, stages = told.log.log, len(target.workers)
    settings = target.settings
    available = _available(inputs, target, told, log)
    if available is None:
        blocks = log.smallest(Figure.GPU_BLOCKS)
        if blocks is None:
            return None
        settings = replace(settings, num_gpu_blocks_override=blocks.low)
        available = (Estimate.certain(_ENOUGH, Source.GIVEN),) * stages
    return Question(
        workers=target.workers,
        settings=settings,
        available=available,
        release_known=log.release_numbers is not None,
    )


def _available(
    inputs: Inputs, target: Target, told: Told, log: StartupLog
) -> tuple[Estimate, ...] | None:
    stages = len(target.workers)
    pinned = inputs.args.kv_cache_memory_bytes
    if pinned is not None:
        return (Estimate.certain(pinned, Source.GIVEN, "--kv-cache-memory-bytes"),) * stages
    measured = measured_available(told.measured, stages)
    short_of = log.smallest(Figure.SHORT_OF)
    if measured is not None or short_of is None:
        return measured
    # A refusal tells what is left for one request: without the null block in newer releases.
    outcome = plan(target.workers, [_ENOUGH] * stages, target.settings)
    null_block = 0
    if inputs.rules.reserves_null_block and isinstance(outcome, Plan):
        null_block = max(worker.bytes_per_block for worker in outcome.workers)
    size = Estimate(
        low=short_of.low + null_block,
        likely=short_of.likely + null_block,
        high=short_of.high + null_block,
        source=Source.MEASURED,
        note=f"line {short_of.line}",
    )
    return (size,) * stages


def _capacity(log: StartupLog, question: Question | None) -> Iterator[Comparison]:
    if question is not None:
        yield from compare_layers(log, question)
        yield from compare_capacity(log, question)
        return
    for figure, unit in ((Figure.TOKENS, Unit.TOKENS), (Figure.NEEDED, Unit.BYTES)):
        printed = log.smallest(figure)
        if printed is not None:
            yield not_predicted(figure.value, "", unit, printed, _NO_MEMORY)
    concurrency = log.smallest(Figure.CONCURRENCY)
    if concurrency is not None:
        unit = Unit.HUNDREDTH_REQUESTS
        yield not_predicted(Figure.CONCURRENCY.value, "", unit, concurrency, _NO_MEMORY)


def not_predicted(figure: str, of: str, unit: Unit, printed: Printed, reason: str) -> Comparison:
    """A printed figure of which kvplan says nothing."""
    return Comparison(
        figure=figure,
        of=of,
        unit=unit,
        printed=printed.text,
        printed_low=printed.low,
        printed_high=printed.high,
        line=printed.line,
        predicted_low=None,
        predicted_likely=None,
        predicted_high=None,
        agreement=Agreement.NOT_PREDICTED,
        reason=reason,
    )


def _memory(inputs: Inputs, target: Target, log: StartupLog) -> Iterator[Comparison]:
    """Weights, and the ladder where the card is known, process by process."""
    alone = replace(inputs, told=None)
    yield from _weights(alone, target, log)
    if inputs.gpu_assumed or "gpu_memory_utilization" not in _told_flags(inputs):
        return
    try:
        budgets = estimated_budgets(alone, target)
    except KvplanError:
        return  # the weights say why
    for process in log.processes:
        stage = process.process.pipeline_rank or 0
        if stage < len(budgets):
            yield from _ladder(process, budgets[stage])


def _told_flags(inputs: Inputs) -> Mapping[str, object]:
    return {} if inputs.told is None else inputs.told.measured.flags


def _weights(inputs: Inputs, target: Target, log: StartupLog) -> Iterator[Comparison]:
    printed = [process for process in log.processes if Figure.WEIGHTS in process.figures]
    if not printed:
        return
    name = Figure.WEIGHTS.value
    try:
        weights = estimated_weights(inputs, target)
    except KvplanError as error:
        for process in printed:
            figure = process.figures[Figure.WEIGHTS]
            yield not_predicted(
                name, process.process.name, Unit.BYTES, figure, error.problems[0].reason
            )
        return
    for process in printed:
        stage = process.process.pipeline_rank or 0
        if stage < len(weights):
            figure = process.figures[Figure.WEIGHTS]
            of = process.process.name
            widened = _widened(weights[stage])
            yield compared_estimate(name, of, figure, widened, _WEIGHTS_REASON)


def _widened(weights: Estimate) -> Estimate:
    """Counted weights with what nine in ten public figures stay within."""
    return replace(weights, low=weights.low - _WEIGHTS_MARGIN, high=weights.high + _WEIGHTS_MARGIN)


def _ladder(process: ProcessFigures, budget: RankBudget) -> Iterator[Comparison]:
    """What the profile run told beside the ladder's lines."""
    lines = {line.name: line.bytes_per_rank for line in budget.lines}
    figures, of = process.figures, process.process.name
    reason = budget.measure_it or _LADDER_REASON
    expected = {
        Figure.NON_TORCH: lines["outside_allocator"],
        Figure.GRAPHS_ESTIMATED: lines["cuda_graphs"],
        Figure.ACTIVATION: lines["transient"],
    }
    if Figure.CONSUMED in figures:
        expected[Figure.CONSUMED] = _sum(
            lines["weights"], lines["persistent_buffers"], lines["outside_allocator"]
        )
        expected[Figure.ACTIVATION] = _sum(lines["transient"], lines["cuda_graphs"])
    elif Figure.ACTIVATION in figures:
        expected[Figure.ACTIVATION] = _sum(lines["transient"], lines["persistent_buffers"])
    if Figure.AVAILABLE in figures:
        expected[Figure.AVAILABLE] = budget.available
    for figure, estimate in expected.items():
        if figure in figures:
            yield compared_estimate(figure.value, of, figures[figure], estimate, reason)


def _sum(*estimates: Estimate) -> Estimate:
    return Estimate(
        low=sum(each.low for each in estimates),
        likely=sum(each.likely for each in estimates),
        high=sum(each.high for each in estimates),
        source=Source.COMPUTED,
    )
