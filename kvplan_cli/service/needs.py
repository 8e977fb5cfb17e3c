"""Whether a planned model meets the needs, and what a request costs it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.grouping.group import KVCacheGroup, device_groups
from kvplan_cli.memory.budget import Estimate, RankBudget
from kvplan_cli.planner.results import Plan, Refusal, RefusalKind
from kvplan_cli.planner.sizing import blocks_per_request, request_blocks
from kvplan_cli.recall import Call
from kvplan_cli.results_solve import Binding, End, GroupCost, Needs, Requests, Shortage
from kvplan_cli.service.fit import find_memory, plan_at
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.target import Target
from kvplan_cli.specs import RequestLimits
from kvplan_cli.values import dataclass

# What more memory mends; the others are mended by other flags only.
MEMORY_SHORTAGES = frozenset({Shortage.KV_CACHE_MEMORY, Shortage.CONCURRENCY, Shortage.REQUESTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One planned value. target, outcome: None where the engine refuses the flags.

    binding: the need that it does not meet; None where it holds.
    """

    target: Target | None
    available: tuple[Estimate, ...] = ()
    budgets: tuple[RankBudget, ...] = ()
    outcome: Plan | Refusal | None = None
    binding: Binding | None = None
    refusal: EngineRefusalError | None = None

    @property
    def holds(self) -> bool:
        return self.binding is None


def trial(inputs: Inputs, needs: Needs, on: End, recall: Call) -> Trial:
    """Plan these inputs at one end of the memory, and hold the plan against the needs.

    Raises: InputError, UnplannableError.
    """
    try:
        target, available, budgets = find_memory(inputs, recall)
        sizes = [getattr(estimate, on.value) for estimate in available]
        outcome = plan_at(target, inputs.args, sizes, recall)
    except EngineRefusalError as error:
        binding = Binding(shortage=Shortage.ENGINE, message=f"vLLM refuses: {_words(error)}")
        return Trial(target=None, binding=binding, refusal=error)
    return Trial(
        target=target,
        available=available,
        budgets=budgets,
        outcome=outcome,
        binding=unmet(target, outcome, needs),
    )


def _words(error: EngineRefusalError) -> str:
    return error.message.strip().split("\n")[0].rstrip(".") or error.error_type


def unmet(target: Target, outcome: Plan | Refusal, needs: Needs) -> Binding | None:
    """The first need that a plan does not meet; None where it meets them all."""
    limit = None if target.model is None else target.model.settings.max_num_seqs
    together = _together(needs)
    if limit is not None and together > limit:
        return Binding(
            shortage=Shortage.MAX_NUM_SEQS,
            message=f"max_num_seqs lets {limit:,} requests run at a time, {together:,} are needed",
        )
    longest = max((each.tokens for each in needs.requests), default=0)
    if longest > target.settings.max_model_len:
        return Binding(
            shortage=Shortage.MAX_MODEL_LEN,
            message=f"a request of the mix has {longest:,} tokens, max_model_len is "
            f"{target.settings.max_model_len:,}",
        )
    if isinstance(outcome, Refusal):
        return Binding(shortage=Shortage.KV_CACHE_MEMORY, message=_refused(outcome))
    return _short_of_requests(outcome, needs) or _short_of_mix(target, outcome, needs)


def _together(needs: Needs) -> int:
    """Requests that must run at a time."""
    mixed = sum(each.count for each in needs.requests)
    return max(mixed, math.ceil(needs.concurrency or 0))


def _refused(refusal: Refusal) -> str:
    length = refusal.max_model_len
    if refusal.kind is RefusalKind.REQUEST_TOO_LARGE and length is not None:
        return f"one request of {length:,} tokens does not fit the memory for the KV cache"
    if refusal.kind is RefusalKind.TOO_FEW_STATES:
        return (
            f"{refusal.needed_blocks:,} sequences of a step need a block each for their states, "
            f"{refusal.available_blocks:,} are there"
        )
    if refusal.kind is RefusalKind.HOST_POOL_TOO_SMALL:
        return "the host pool is too small for one request"
    return "no memory is left for the KV cache"


def _short_of_requests(plan: Plan, needs: Needs) -> Binding | None:
    have, need = plan.max_concurrency, needs.concurrency
    if have is None or need is None or Fraction(have) >= need:
        return None
    return Binding(
        shortage=Shortage.CONCURRENCY,
        message=f"{floored(have)} requests of {plan.max_model_len:,} tokens fit at a time, "
        f"{float(need):g} are needed{limiting_stage(plan)}",
    )


def floored(value: float) -> str:
    """Two decimals, never more than there is."""
    return f"{math.floor(value * 100) / 100:,.2f}"


def limiting_stage(plan: Plan) -> str:
    """Which stage limits, in brackets; nothing where there is one."""
    if len(plan.workers) == 1:
        return ""
    return f" (pipeline stage {plan.limiting_worker} limits)"


def _short_of_mix(target: Target, plan: Plan, needs: Needs) -> Binding | None:
    # The null block is never handed out.
    have = plan.num_blocks - 1
    need = mix_blocks(plan, target, needs.requests)
    if need <= have or not plan.groups:
        return None
    return Binding(
        shortage=Shortage.REQUESTS,
        message=f"the mix needs {need:,} blocks, {have:,} can be handed out{limiting_stage(plan)}",
    )


def mix_blocks(plan: Plan, target: Target, requests: Sequence[Requests]) -> int:
    """Blocks of all groups that these requests hold at a time."""
    groups, limits = plan.workers[0].groups, target.settings.request_limits
    return sum(each.count * request_blocks(groups, each.tokens, limits) for each in requests)


def request_costs(
    plan: Plan, target: Target, requests: Sequence[Requests]
) -> tuple[GroupCost, ...]:
    """What a request of each length costs in each group of the device."""
    limits = target.settings.request_limits
    block_bytes = sum(worker.bytes_per_block for worker in plan.workers)
    # The first worker's groups bound a request, as in the engine; their layers are all stages'.
    whole = device_groups(plan.groups)
    return tuple(
        _group_cost(index, group, each, limits, block_bytes, len(whole[index].layer_names))
        for each in requests
        for index, group in enumerate(device_groups(plan.workers[0].groups))
    )


def _group_cost(
    index: int,
    group: KVCacheGroup,
    requests: Requests,
    limits: RequestLimits,
    block_bytes: int,
    num_layers: int,
) -> GroupCost:
    span = group.block_size * limits.decode_context_parallel_size
    blocks = blocks_per_request(group, requests.tokens, limits)
    longer = blocks_per_request(group, requests.tokens + span, limits)
    each = Fraction((longer - blocks) * block_bytes, span)
    size = blocks * block_bytes
    return GroupCost(
        tokens=requests.tokens,
        count=requests.count,
        group=index,
        kind=type(group.spec).__name__,
        num_layers=num_layers,
        blocks=blocks,
        bytes_all_workers=size,
        fixed_bytes=max(0, size - math.floor(each * requests.tokens)),
        bytes_per_token=each,
    )
