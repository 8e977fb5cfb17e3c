"""What a plan file expects, held against the plan at each end of the memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.engine_rules import TokenLine
from kvplan_cli.errors import EngineRefusalError, InputError, Problem, UnplannableError
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.expectations import Expectation
from kvplan_cli.loader.lines import Lines
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.recall import Call
from kvplan_cli.results_gate import Check, Unit
from kvplan_cli.results_solve import End, Needs, Requests, Shortage
from kvplan_cli.service.fit import Answer, answer_for
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.needs import mix_blocks, unmet
from kvplan_cli.values import dataclass

_NO_NEEDS: Final = Needs()
_NO_CACHE: Final = "this model keeps no KV cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What stands in the plan at one end of the memory. required: where the plan says it too."""

    actual: int | float | None
    holds: bool | None = None
    required: int | float | None = None
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a deployment begins in its file."""

    path: Path
    line: int


@dataclasses.dataclass(slots=True, kw_only=True)
class Outcomes:
    """One deployment's plans at each end of the memory, and with the longest context."""

    inputs: Inputs
    answer: Answer
    recall: Call
    _longest: Answer | None = None

    def at(self, end: End) -> Plan | Refusal:
        outcome: Plan | Refusal = getattr(self.answer, end.value)
        return outcome

    def longest_at(self, end: End) -> int | None:
        """What the engine would make of ``--max-model-len auto``; None where nothing fits."""
        outcome = self.at(end)
        if not self.answer.target.settings.auto_fit:
            try:
                if self._longest is None:
                    automatic = self.inputs.with_args(max_model_len=AUTO_MAX_MODEL_LEN)
                    self._longest = answer_for(automatic, self.recall)
                outcome = getattr(self._longest, end.value)
            except EngineRefusalError:
                # Models without a length limit of their own take no ``auto``.
                pass
        return outcome.max_model_len if isinstance(outcome, Plan) else None


def check_all(outcomes: Outcomes, on: End, lines: Lines, start: Start) -> Iterator[Check]:
    """Every expectation of a deployment, and first that it fits, which its start stands for.

    Raises: InputError, UnplannableError where an expectation can't be held against this plan.
    """
    expected = outcomes.inputs.expect
    yield _fits(outcomes, on, start)
    for each in expected:
        yield _check(each, outcomes, on, lines)


def _fits(outcomes: Outcomes, on: End, start: Start) -> Check:
    fitting = tuple(end for end in End if isinstance(outcomes.at(end), Plan))
    outcome, remark = outcomes.at(on), None
    if isinstance(outcome, Refusal):
        binding = unmet(outcomes.answer.target, outcome, _NO_NEEDS)
        remark = None if binding is None else binding.message
    return Check(
        name="fits",
        unit=Unit.ANSWER,
        required=1,
        actual=int(on in fitting),
        at_most=False,
        holds=on in fitting,
        holds_on=fitting,
        path=start.path,
        line=start.line,
        remark=remark,
    )


def _check(expected: Expectation, outcomes: Outcomes, on: End, lines: Lines) -> Check:
    measure = MEASURES[expected.name]
    figures = {end: measure.read(outcomes, end, expected) for end in End}
    at_most = expected.name.startswith("max-")
    held = tuple(end for end, figure in figures.items() if _holds(figure, expected, at_most))
    figure = figures[on]
    required = figure.required if isinstance(expected.value, tuple) else expected.value
    return Check(
        name=expected.name,
        unit=measure.unit,
        required=required,
        actual=figure.actual,
        at_most=at_most,
        holds=on in held,
        holds_on=held,
        path=expected.path,
        line=lines.of_key(expected.path, expected.key),
        remark=figure.remark,
    )


def _holds(figure: Figure, expected: Expectation, at_most: bool) -> bool:
    if figure.holds is not None:
        return figure.holds
    if figure.actual is None or isinstance(expected.value, tuple):
        return False
    return figure.actual <= expected.value if at_most else figure.actual >= expected.value


def _concurrency(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    outcome, target = outcomes.at(end), outcomes.answer.target
    assert isinstance(expected.value, float)
    lacks = unmet(target, outcome, Needs(concurrency=Fraction(expected.value)))
    if isinstance(outcome, Refusal):
        return Figure(actual=None, holds=False)
    limit = None if target.model is None else target.model.settings.max_num_seqs
    have = outcome.max_concurrency
    if have is None and limit is None:
        reason = "nothing is cached and nothing limits the requests"
        raise UnplannableError(Problem(where=_where(expected), reason=reason))
    limited = have is None or (limit is not None and limit < have)
    return Figure(
        actual=limit if limited else have,
        holds=lacks is None,
        remark=f"max_num_seqs is {limit:,}" if limited else None,
    )


def _length(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    outcome = outcomes.at(end)
    return Figure(actual=outcome.max_model_len if isinstance(outcome, Plan) else None)


def _longest(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    return Figure(actual=outcomes.longest_at(end))


def _tokens(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    """The figure that the release prints."""
    outcome = outcomes.at(end)
    if isinstance(outcome, Refusal):
        return Figure(actual=None)
    by_blocks = outcomes.inputs.rules.token_line is TokenLine.BY_BLOCKS
    tokens = outcome.kv_cache_size_tokens_by_blocks if by_blocks else outcome.kv_cache_size_tokens
    return Figure(actual=tokens, remark=_NO_CACHE if tokens is None else None)


def _blocks(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    outcome = outcomes.at(end)
    return Figure(actual=outcome.num_blocks if isinstance(outcome, Plan) else None)


def _kv_mem(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    """Of the worker that has least."""
    sizes = [int(getattr(estimate, end.value)) for estimate in outcomes.answer.available]
    return Figure(actual=min(sizes))


def _requests(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    outcome, target, mix = outcomes.at(end), outcomes.answer.target, expected.value
    assert isinstance(mix, tuple)
    if isinstance(outcome, Refusal):
        return Figure(actual=None, holds=False, remark=_told(mix))
    lacks = unmet(target, outcome, Needs(requests=mix))
    other = lacks is not None and lacks.shortage is not Shortage.REQUESTS
    return Figure(
        required=mix_blocks(outcome, target, mix),
        # The null block is never handed out.
        actual=outcome.num_blocks - 1,
        holds=lacks is None,
        remark=lacks.message if lacks is not None and other else _told(mix),
    )


def _told(mix: tuple[Requests, ...]) -> str:
    return ", ".join(f"{each.count:,} x {each.tokens:,}" for each in mix) + " tokens at a time"


def _utilization(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    inputs = outcomes.inputs
    for given, key in (
        (bool(inputs.memory.kv_mem_bytes), "kv-mem"),
        (inputs.args.kv_cache_memory_bytes is not None, "kv-cache-memory-bytes"),
    ):
        if given:
            reason = f"{key} says what is left for the cache, so that no utilization counts"
            way_out = f"drop the expectation, or {key} and name the card with gpu"
            raise InputError(Problem(where=_where(expected), reason=reason, way_out=way_out))
    return Figure(actual=inputs.args.gpu_memory_utilization)


def _cards(outcomes: Outcomes, end: End, expected: Expectation) -> Figure:
    return Figure(actual=outcomes.inputs.args.num_gpus)


def _where(expected: Expectation) -> str:
    return f"{place(expected.path)}: {expected.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How an expectation's figure is read off a plan."""

    unit: Unit
    read: Callable[[Outcomes, End, Expectation], Figure]


# One for each name that ``expect:`` takes.
MEASURES: Final[Mapping[str, Measure]] = {
    "min-concurrency": Measure(unit=Unit.REQUESTS, read=_concurrency),
    "min-max-model-len": Measure(unit=Unit.TOKENS, read=_length),
    "min-longest-context": Measure(unit=Unit.TOKENS, read=_longest),
    "min-kv-tokens": Measure(unit=Unit.TOKENS, read=_tokens),
    "min-num-blocks": Measure(unit=Unit.BLOCKS, read=_blocks),
    "min-kv-mem": Measure(unit=Unit.BYTES, read=_kv_mem),
    "requests": Measure(unit=Unit.BLOCKS, read=_requests),
    "max-gpu-memory-utilization": Measure(unit=Unit.FRACTION, read=_utilization),
    "max-gpus": Measure(unit=Unit.CARDS, read=_cards),
}
