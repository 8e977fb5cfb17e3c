"""The layer partition that balances pipeline stages, found by planning it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kvplan_cli.memory.budget import RankBudget
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results import Notice, NoticeKind
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.target import Target
from kvplan_cli.settings.environment import PP_LAYER_PARTITION
from kvplan_cli.settings.pipeline import stage_layers
from kvplan_cli.units import GIB

# One stage limits strongly where the others could hold this much more.
_STRONGLY: Final = 1.1
# A partition is worth a word where it brings this much more.
_WORTH: Final = 1.05
_MOST_MOVES: Final = 8

Replan = Callable[[Inputs], Plan | Refusal | None]


def balance_notice(
    inputs: Inputs,
    target: Target,
    budgets: Sequence[RankBudget],
    deciding: Plan | Refusal,
    replan: Replan,
) -> tuple[Notice, ...]:
    """A word on the partition that holds more, where one stage limits all strongly.

    replan: the deciding outcome of other inputs. Nothing without ladders: known cache memory
    says nothing of what a moved layer's weights would take.
    """
    best = balanced_partition(inputs, target, budgets, deciding, replan)
    if best is None or not isinstance(deciding, Plan):
        return ()
    partition, plan = best
    before, after = _tokens(deciding), _tokens(plan)
    limiting = deciding.limiting_worker
    return (
        Notice(
            kind=NoticeKind.NOTE,
            code="unbalanced_stages",
            message=(
                f"Stage {limiting} limits all ({_why(budgets, limiting)}); "
                f"{PP_LAYER_PARTITION}={partition} holds {after:,} tokens instead of {before:,}."
            ),
        ),
    )


def balanced_partition(
    inputs: Inputs,
    target: Target,
    budgets: Sequence[RankBudget],
    deciding: Plan | Refusal,
    replan: Replan,
) -> tuple[str, Plan] | None:
    """The layer partition that holds more, with its plan; None where there is nothing to mend."""
    if target.model is None or not budgets or not isinstance(deciding, Plan):
        return None
    if PP_LAYER_PARTITION in inputs.args.env or not _limits_strongly(deciding):
        return None
    ranges = stage_layers(target.model.shape.num_hidden_layers, len(deciding.workers))
    return _better(inputs, [len(layers) for layers in ranges], deciding, replan)


def _limits_strongly(plan: Plan) -> bool:
    alone = [worker.num_blocks_alone for worker in plan.workers]
    return len(alone) > 1 and max(alone) >= _STRONGLY * min(alone)


def _tokens(plan: Plan) -> int:
    return plan.kv_cache_size_tokens or 0


def _why(budgets: Sequence[RankBudget], stage: int) -> str:
    """The line of its ladder that exceeds the other stages' by most, or its smaller card."""
    own = budgets[stage]
    others = [budget for budget in budgets if budget.stage != own.stage]
    if all(own.requested_bytes < budget.requested_bytes for budget in others):
        return f"its card has {own.total_memory_bytes / GIB:.2f} GiB"
    excess = {
        line.name: line.bytes_per_rank.likely - min(_line(budget, line.name) for budget in others)
        for line in own.lines
    }
    name = max(excess, key=lambda key: excess[key])
    if excess[name] <= 0:
        return "its layers cache more"
    return f"its {name.replace('_', ' ')} takes {excess[name] / GIB:.2f} GiB more"


def _line(budget: RankBudget, name: str) -> int:
    return next(line.bytes_per_rank.likely for line in budget.lines if line.name == name)


def _better(
    inputs: Inputs, counts: list[int], plan: Plan, replan: Replan
) -> tuple[str, Plan] | None:
    """Layers moved one by one from the stage that limits to the one with most to spare."""
    first, best = _tokens(plan), None
    for _ in range(_MOST_MOVES):
        source, sink = plan.limiting_worker, _roomiest(plan)
        if source == sink or counts[source] <= 1:
            break
        counts[source] -= 1
        counts[sink] += 1
        partition = ",".join(map(str, counts))
        env = {**inputs.args.env, PP_LAYER_PARTITION: partition}
        found = replan(inputs.with_args(env=env))
        if not isinstance(found, Plan) or _tokens(found) <= _tokens(plan):
            break
        plan, best = found, (partition, found)
    if best is None or _tokens(best[1]) < _WORTH * first:
        return None
    return best


def _roomiest(plan: Plan) -> int:
    alone = [worker.num_blocks_alone for worker in plan.workers]
    return alone.index(max(alone))
