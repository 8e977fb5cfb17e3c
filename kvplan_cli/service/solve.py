"""One quantity under needs: the least, the most, or the first that holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

from kvplan_cli.errors import Problem, UnplannableError
from kvplan_cli.planner.results import Plan
from kvplan_cli.recall import Call
from kvplan_cli.results import Notice, NoticeKind
from kvplan_cli.results_solve import (
    Binding,
    Method,
    Quantity,
    Requests,
    Shortage,
    SolveRequest,
    SolveResult,
    Tried,
    Way,
)
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.service.needs import (
    MEMORY_SHORTAGES,
    Trial,
    floored,
    limiting_stage,
    request_costs,
    trial,
)
from kvplan_cli.service.quantities import (
    CONCURRENCY_STEP,
    ENUMERATED,
    SEARCHED,
    Enumerated,
    Grid,
    Range,
    Searched,
    check_question,
)
from kvplan_cli.service.recalling import recalling
from kvplan_cli.service.solved_flags import solved
from kvplan_cli.units import largest_fitting, smallest_fitting
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What every trial of one question shares."""

    request: SolveRequest
    inputs: Inputs
    recall: Call

    def ask(self, inputs: Inputs) -> Trial:
        return trial(inputs, self.request.needs, self.request.on, self.recall)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A value, or None, with the trial that shows the plan and what binds."""

    value: str | None
    trial: Trial
    binding: Binding
    method: Method
    step: str | None = None
    tried: tuple[Tried, ...] = ()


def solve(request: SolveRequest) -> SolveResult:
    """Find one quantity for one model.

    Raises: InputError, UnplannableError; EngineRefusalError where the engine refuses the flags
    at every value of the quantity.
    """
    sought = request.quantity
    inputs = read_inputs(
        request.fit, needs_memory=sought not in (Quantity.KV_MEM, Quantity.GPU_MEM)
    )
    check_question(inputs, sought)
    question = _Question(request=request, inputs=inputs, recall=recalling())
    if sought in SEARCHED:
        found = _search(question, SEARCHED[sought])
    elif sought in ENUMERATED:
        found = _enumerate(question, ENUMERATED[sought])
    else:
        found = _read_off(question)
    if found.value is None and found.trial.refusal is not None:
        raise found.trial.refusal
    return _result(question, found)


def _search(question: _Question, quantity: Searched) -> _Found:
    grid = Grid(step=question.request.step or quantity.step)

    @cache
    def ask(number: int) -> Trial:
        return question.ask(quantity.put(question.inputs, grid.value(number)))

    find = _most if quantity.most else _least
    shown = 0
    for run in quantity.ranges(question.inputs, grid.step, question.recall):
        number, shown = find(ask, run)
        if number is not None:
            binding = _beyond(ask, run, number + 1 if quantity.most else number - 1, grid)
            break
    else:
        number, binding = None, _bound_at(ask(shown), grid.text(shown))
    return _Found(
        value=None if number is None else grid.text(number),
        trial=ask(shown),
        binding=binding,
        method=Method(way=Way.SEARCH, reason=quantity.method),
        step=grid.text(1),
    )


def _least(ask: Callable[[int], Trial], run: Range) -> tuple[int | None, int]:
    """The smallest number of the run that holds, and the one to show: where none does, the end."""
    before = run.low - 1
    more = smallest_fitting(lambda n: ask(before + n).holds, run.high - before)
    return (before + more, before + more) if more else (None, run.high)


def _most(ask: Callable[[int], Trial], run: Range) -> tuple[int | None, int]:
    """The largest number that holds, and the one to show: where none does, the easiest.

    Values below what the engine takes or the needs ask for stand before the run that counts.
    """

    def taken(number: int) -> bool:
        binding = ask(number).binding
        return binding is None or binding.shortage in MEMORY_SHORTAGES

    start = smallest_fitting(taken, run.high)
    if not start:
        return None, run.high
    more = largest_fitting(lambda n: ask(start - 1 + n).holds, run.high - start + 1)
    return (start - 1 + more, start - 1 + more) if more else (None, start)


def _beyond(ask: Callable[[int], Trial], run: Range, number: int, grid: Grid) -> Binding:
    """What the next value lacks: the reason that the answer is no better."""
    if number > run.high:
        return Binding(shortage=Shortage.LIMIT, message=run.why)
    if number < 1:
        return Binding(shortage=Shortage.LIMIT, message="it is the least that can be asked for")
    return _bound_at(ask(number), grid.text(number))


def _bound_at(tried: Trial, value: str) -> Binding:
    if tried.binding is None:
        raise AssertionError(f"{value} was found not to hold")
    return replace(tried.binding, at=value)


def _enumerate(question: _Question, quantity: Enumerated) -> _Found:
    """The first value that holds."""
    tried: list[Tried] = []
    last: Trial | None = None
    for value in quantity.values:
        try:
            last = question.ask(quantity.put(question.inputs, value))
        except UnplannableError as error:
            tried.append(_unplannable(value, error))
            continue
        tried.append(_tried(value, last))
        if last.holds:
            break
    if last is None:
        # Not one value can be planned: the model is at fault, and says so again.
        last = question.ask(quantity.put(question.inputs, quantity.values[0]))
    return _Found(
        value=tried[-1].value if last.holds else None,
        trial=last,
        binding=_closest(tried),
        method=Method(way=Way.ENUMERATION, reason=quantity.method),
        tried=tuple(tried),
    )


def _tried(value: str, asked: Trial) -> Tried:
    outcome = asked.outcome
    return Tried(
        value=value,
        binding=None if asked.holds else _bound_at(asked, value),
        max_concurrency=outcome.max_concurrency if isinstance(outcome, Plan) else None,
    )


def _unplannable(value: str, error: UnplannableError) -> Tried:
    reason = error.problems[0].reason
    binding = Binding(shortage=Shortage.UNPLANNABLE, message=reason, at=value)
    return Tried(value=value, binding=binding, max_concurrency=None)


def _closest(tried: Sequence[Tried]) -> Binding:
    """What the values lack that do not hold: the one that came closest.

    Short of memory comes before refused; among those, the most requests at a time.
    """
    bindings = [(each.max_concurrency or 0.0, each.binding) for each in tried if each.binding]
    if not bindings:
        return Binding(shortage=Shortage.LIMIT, message="it is the first that is tried")
    short = [each for each in bindings if each[1].shortage in MEMORY_SHORTAGES]
    return max(short or bindings, key=lambda each: each[0])[1]


def _read_off(question: _Question) -> _Found:
    """Concurrency: what the plan says, and what the scheduler lets run."""
    grid = Grid(step=question.request.step or CONCURRENCY_STEP)
    asked = question.ask(question.inputs)
    method = Method(way=Way.PLAN, reason="the engine's own figure for one plan, rounded down")
    if not asked.holds:
        assert asked.binding is not None
        return _Found(value=None, trial=asked, binding=asked.binding, method=method)
    plan, target = asked.outcome, asked.target
    assert isinstance(plan, Plan)
    assert target is not None
    limit = None if target.model is None else target.model.settings.max_num_seqs
    have = plan.max_concurrency
    if have is None and limit is None:
        raise UnplannableError(
            Problem(where="MODEL", reason="nothing is cached and nothing limits the requests")
        )
    if have is None or (limit is not None and limit < have):
        assert limit is not None
        most = Fraction(limit)
        binding = Binding(
            shortage=Shortage.MAX_NUM_SEQS,
            message=f"max_num_seqs lets {limit:,} requests run at a time",
        )
    else:
        most = Fraction(have)
        binding = Binding(
            shortage=Shortage.CONCURRENCY,
            message=f"{floored(have)} requests of {plan.max_model_len:,} tokens fill the memory "
            f"for the KV cache{limiting_stage(plan)}",
        )
    return _Found(
        value=grid.text(most // Fraction(grid.step)),
        trial=asked,
        binding=binding,
        method=method,
        step=grid.text(1),
    )


def _result(question: _Question, found: _Found) -> SolveResult:
    request, inputs, asked = question.request, question.inputs, found.trial
    target = asked.target
    assert target is not None
    plan = asked.outcome
    lengths = request.needs.requests
    if not lengths and isinstance(plan, Plan):
        lengths = (Requests(tokens=plan.max_model_len, count=1),)
    return SolveResult(
        model=inputs.name,
        model_origin=str(target.source.origin) if target.source else "plan file",
        architecture=target.architecture,
        engine_release=inputs.rules.release,
        origins=inputs.origins,
        quantity=request.quantity,
        needs=request.needs,
        on=request.on,
        estimated=not all(estimate.is_certain for estimate in asked.available),
        step=found.step,
        value=found.value,
        binding=found.binding,
        method=found.method,
        outcome=plan,
        costs=request_costs(plan, target, lengths) if isinstance(plan, Plan) else (),
        tried=found.tried,
        notices=inputs.notices + tuple(_measure_it(asked)),
        serving=solved(inputs, plan, request.quantity, found.value),
    )


def _measure_it(asked: Trial) -> Iterator[Notice]:
    for reason in dict.fromkeys(budget.measure_it for budget in asked.budgets):
        if reason is not None:
            message = f"The memory left for the cache is known as a range only: {reason}."
            yield Notice(kind=NoticeKind.WARNING, code="measure_it", message=message)
