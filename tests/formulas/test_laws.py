"""Laws of formulas, waste and maps, on random models, settings and memories."""

from __future__ import annotations

from hypothesis import assume, given

from kvplan_cli.formulas.figures import Planned, plan_formulas, planned_from
from kvplan_cli.formulas.maps import MapOf, memory_maps
from kvplan_cli.formulas.shares import shares
from kvplan_cli.formulas.waste import wastes
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import MEMORY_REFUSALS, Refusal
from tests.formulas.reading import check_equation
from tests.laws.strategies import Layers, memories, models, settings


def planned(layers: Layers, memory: int, given_settings: PlannerSettings) -> Planned:
    outcome = plan([layers], [memory], given_settings)
    assume(not isinstance(outcome, Refusal) or outcome.kind in MEMORY_REFUSALS)
    return planned_from(outcome, [layers], [memory], given_settings)


@given(models(), memories, settings())
def test_every_formula_reads_back(layers: Layers, memory: int, asked: PlannerSettings) -> None:
    made = planned(layers, memory, asked)
    for formula in plan_formulas(made, None):
        assert check_equation(formula.figures) == formula.result


@given(models(), memories, settings())
def test_waste_is_a_part(layers: Layers, memory: int, asked: PlannerSettings) -> None:
    made = planned(layers, memory, asked)
    total = sum(share.size for share in shares(made))
    found = wastes(made)
    assert sum(each.num_bytes for each in found if each.of_a_request) <= total
    assert all(each.num_bytes > 0 for each in found)
    assert [each.percent for each in found] == sorted((e.percent for e in found), reverse=True)


@given(models(), memories, settings())
def test_maps_add_up_to_the_byte(layers: Layers, memory: int, asked: PlannerSettings) -> None:
    made = planned(layers, memory, asked)
    maps = memory_maps(made, (), "likely")
    for each in maps:
        assert sum(part.num_bytes for part in each.parts) == each.total_bytes
        ends = [part.offset_bytes + part.num_bytes for part in each.parts]
        assert [part.offset_bytes for part in each.parts[1:]] == ends[:-1]
    (budget,) = (each for each in maps if each.map_of is MapOf.BUDGET)
    assert budget.total_bytes == memory
    blocks = [each for each in maps if each.map_of is MapOf.BLOCK]
    assert {each.total_bytes for each in blocks} == {made.memories[0].bytes_per_block}
