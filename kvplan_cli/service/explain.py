"""Why a plan is as it is, and which flags would change it: the order of things."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.formulas.figures import (
    Planned,
    longest_context_formulas,
    plan_formulas,
    planned_from,
)
from kvplan_cli.formulas.formula import Formula
from kvplan_cli.formulas.ladder import at_end, available_formulas
from kvplan_cli.formulas.maps import memory_maps
from kvplan_cli.formulas.waste import wastes
from kvplan_cli.memory.budget import Estimate
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.recall import Call
from kvplan_cli.results import FitRequest
from kvplan_cli.results_explain import ExplainResult
from kvplan_cli.service.changes import Asked, changes, standing
from kvplan_cli.service.fit import Answer, answer_for, check_profile_of, fit_result
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.service.levers import levers
from kvplan_cli.service.recalling import recalling
from kvplan_cli.service.target import Target


def explain(request: FitRequest) -> ExplainResult:
    """Plan one model on one memory, and say why the plan is as it is.

    Raises: as ``fit``.
    """
    inputs, recall = read_inputs(request), recalling()
    check_profile_of(inputs)
    answer = answer_for(inputs, recall)
    result = fit_result(request, inputs, answer, recall)
    end = answer.decided_on
    planned = _planned(answer.target, answer.available, answer.deciding, end)
    asked = Asked(end=end, recall=recall)
    now = standing(inputs, asked)
    tried = levers(inputs, answer, now, asked)
    resolved = result.settings
    formulas = (
        *available_formulas(answer.budgets, answer.available, end),
        *plan_formulas(planned, resolved),
        *_longest(inputs, end, recall),
    )
    return ExplainResult(
        fit=result,
        formulas=formulas,
        maps=memory_maps(planned, answer.budgets, end),
        wastes=wastes(planned),
        now=now,
        changes=changes(inputs, tried, now, asked),
    )


def _planned(
    target: Target, available: Sequence[Estimate], outcome: Plan | Refusal, end: str
) -> Planned:
    sizes = [at_end(estimate, end) for estimate in available]
    shape = None if target.model is None else target.model.shape
    return planned_from(outcome, target.workers, sizes, target.settings, shape)


def _longest(inputs: Inputs, end: str, recall: Call) -> tuple[Formula, ...]:
    """The longest context, as ``--max-model-len auto`` finds it; nothing where that is refused."""
    try:
        automatic: Answer = answer_for(inputs.with_args(max_model_len=AUTO_MAX_MODEL_LEN), recall)
    except EngineRefusalError:
        return ()
    outcome = automatic.low if end == "low" else automatic.likely
    planned = _planned(automatic.target, automatic.available, outcome, end)
    return tuple(longest_context_formulas(planned))
