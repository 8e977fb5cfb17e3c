"""Every formula of every kept model: read back from its text, and equal to the plan's figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.formulas.figures import (
    Planned,
    longest_context_formulas,
    plan_formulas,
    planned_from,
)
from kvplan_cli.formulas.formula import Formula, Unit
from kvplan_cli.formulas.shares import shares
from kvplan_cli.formulas.waste import wastes
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import MEMORY_REFUSALS, Plan, Refusal
from kvplan_cli.resolution import ResolvedModel, planner_settings
from kvplan_cli.specs.bundle import LayerSpecs
from tests.conformance.model_cases import engine_args_of, gpu_of, resolve_case
from tests.conformance.plan_cases import layers_from, settings_from
from tests.conformance.run import read_lines
from tests.formulas.reading import check_equation

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
FILES = ("models", "more_models", "latent", "states", "drafter_models", "plan")
# A share of each file, so that the test takes seconds; all of them held when this was written.
STEP = 7


class Question:
    """One kept case on one of its memories."""

    def __init__(
        self,
        workers: Sequence[LayerSpecs],
        available: Sequence[int],
        settings: PlannerSettings,
        model: ResolvedModel | None,
    ) -> None:
        self.workers, self.available = workers, available
        self.settings, self.model = settings, model

    def planned(self, **changes: Any) -> Planned | None:
        """The outcome; None where more memory would not mend it."""
        settings = replace(self.settings, **changes)
        outcome = plan(self.workers, self.available, settings)
        if isinstance(outcome, Refusal) and outcome.kind not in MEMORY_REFUSALS:
            return None
        shape = None if self.model is None else self.model.shape
        return planned_from(outcome, self.workers, self.available, settings, shape)


def questions(file: str) -> Iterator[Question]:
    for line in islice(read_lines(VECTORS / f"{file}.jsonl.xz"), 0, None, STEP):
        yield from _questions(json.loads(line))


def _questions(case: Mapping[str, Any]) -> Iterator[Question]:
    if "workers" in case:
        workers = [layers_from(worker) for worker in case["workers"]]
        settings = settings_from(case["config"])
        for result in case["results"]:
            yield Question(workers, result["available_memory"], settings, None)
        return
    args = engine_args_of(case)
    try:
        model = resolve_case(case, args, gpu_of(case))
        settings = planner_settings(model, args)
    except EngineRefusalError:
        return
    for result in case["results"]:
        yield Question(model.backends.stages, result["available_memory"], settings, model)


def check(planned: Planned, formulas: Sequence[Formula]) -> None:
    for formula in formulas:
        assert check_equation(formula.figures) == formula.result, formula
        assert formula.source
    if isinstance(planned.outcome, Plan):
        check_plan(planned.outcome, formulas)


def check_plan(plan: Plan, formulas: Sequence[Formula]) -> None:
    """The figures by name, as the plan has them."""
    by_name: dict[str, list[Formula]] = {}
    for formula in formulas:
        by_name.setdefault(formula.name, []).append(formula)

    def results(name: str) -> set[float]:
        return {formula.result for formula in by_name.get(name, [])}

    if not plan.groups:
        assert not formulas
        return
    specs = {spec for group in plan.groups for spec in group.layers_by_spec}
    assert results("page") == {spec.page_size_bytes for spec in specs}
    assert results("bytes a block") == {worker.bytes_per_block for worker in plan.workers}
    assert results("num_blocks") == {plan.num_blocks}
    assert results("needed by one request") == {w.request_need_bytes for w in plan.workers}
    assert results("requests at a time") == {plan.max_concurrency}
    assert results("tokens") == {plan.kv_cache_size_tokens}
    assert by_name["blocks of a request"][-1].result == sum(
        plan.workers[0].blocks_per_request_by_group
    )


@pytest.mark.parametrize("file", FILES)
def test_every_figure_is_worked_out_as_printed(file: str) -> None:
    number = 0
    for question in questions(file):
        planned = question.planned()
        if planned is not None:
            resolved = None if question.model is None else question.model.settings
            formulas = list(plan_formulas(planned, resolved))
            check(planned, formulas)
            number += len(formulas)
    assert number > 400


@pytest.mark.parametrize("file", FILES)
def test_the_longest_context_is_proved_by_its_neighbour(file: str) -> None:
    for question in questions(file):
        automatic = question.planned(auto_fit=True)
        if automatic is None or not isinstance(automatic.outcome, Plan):
            continue
        formulas = list(longest_context_formulas(automatic))
        for formula in formulas:
            assert check_equation(formula.figures) == formula.result
        longest, limit = automatic.outcome.max_model_len, question.settings.max_model_len
        beyond = [formula for formula in formulas if formula.name == "a token longer"]
        assert bool(beyond) == (longest < limit and bool(automatic.groups))


@pytest.mark.parametrize("file", FILES)
def test_waste_is_worked_out_and_counts_no_byte_twice(file: str) -> None:
    for question in questions(file):
        planned = question.planned()
        if planned is None:
            continue
        found = wastes(planned)
        for wasted in found:
            assert check_equation(wasted.formula.figures) == wasted.num_bytes > 0
            assert wasted.formula.unit is Unit.BYTES
            assert 0 < wasted.percent <= 100
        of_request = [wasted for wasted in found if wasted.of_a_request]
        total = sum(share.size for share in shares(planned)) if planned.groups else 0
        assert all(wasted.of_bytes == total for wasted in of_request)
        assert sum(wasted.num_bytes for wasted in of_request) <= total
