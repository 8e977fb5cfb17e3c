"""What each change of flags holds, planned, beside what the flags hold now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN, EngineArgs
from kvplan_cli.errors import InputError, KvplanError, Problem
from kvplan_cli.formulas.ladder import at_end
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.recall import Call
from kvplan_cli.results_explain import Change, Effect, Price, Standing
from kvplan_cli.service.fit import find_memory, plan_at
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.values import dataclass

# Smaller gains than this are noise beside an estimate, and round away in two decimals.
_LEAST_GAIN = 1.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How every change is planned: at which end of the memory, and with which steps recalled."""

    end: str
    recall: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change to try.

    typed: as on a command line. args: the engine's flags that it changes. cost: what it takes,
    in words.
    """

    flag: str
    typed: str
    args: Mapping[str, object]
    cost: str
    price: Price = Price.OTHER


def standing(inputs: Inputs, asked: Asked) -> Standing:
    """What these flags hold. Raises: KvplanError where they are not planned."""
    outcome, available = _planned(inputs, asked)
    plan = outcome if isinstance(outcome, Plan) else None
    return Standing(
        fits=plan is not None,
        max_model_len=outcome.max_model_len,
        max_concurrency=None if plan is None else plan.max_concurrency,
        tokens=None if plan is None else plan.kv_cache_size_tokens,
        longest_context=_longest(inputs, outcome, asked),
        gpus=gpus_of(inputs.args),
        available_bytes=available,
    )


def _planned(inputs: Inputs, asked: Asked) -> tuple[Plan | Refusal, int]:
    cards, stages = len(inputs.stage_gpus), inputs.args.pipeline_parallel_size
    if cards not in (1, stages):
        raise InputError(Problem(where="--gpu", reason=f"{cards} cards for {stages} stages"))
    target, available, _ = find_memory(inputs, asked.recall)
    sizes = [at_end(estimate, asked.end) for estimate in available]
    return plan_at(target, inputs.args, sizes, asked.recall), min(sizes)


def _longest(inputs: Inputs, outcome: Plan | Refusal, asked: Asked) -> int | None:
    if inputs.args.max_model_len == AUTO_MAX_MODEL_LEN:
        return outcome.max_model_len if isinstance(outcome, Plan) else None
    try:
        automatic, _ = _planned(inputs.with_args(max_model_len=AUTO_MAX_MODEL_LEN), asked)
    except KvplanError:
        # Models without a length limit of their own take no ``auto``.
        return outcome.max_model_len if isinstance(outcome, Plan) else None
    return automatic.max_model_len if isinstance(automatic, Plan) else None


def gpus_of(args: EngineArgs) -> int:
    """Cards of all ranks."""
    return (
        args.tensor_parallel_size
        * args.pipeline_parallel_size
        * args.prefill_context_parallel_size
        * args.data_parallel_size
    )


def changes(
    inputs: Inputs, levers: Iterable[Lever], now: Standing, asked: Asked
) -> tuple[Change, ...]:
    """Every change planned: the best first, more cards behind; then those that do not help."""
    tried = [(lever, _tried(inputs, lever, now, asked)) for lever in levers]
    found = [change for _, change in tried]
    joined = _together(inputs, tried, now, asked)
    if joined is not None:
        found.append(replace(_tried(inputs, joined, now, asked), together=True))
    return tuple(sorted(found, key=lambda change: _rank(change, now)))


def _rank(change: Change, now: Standing) -> tuple[bool, bool, bool, float, float]:
    """Smaller is better. Tokens count and not requests, whose length a change may change."""
    then = change.standing
    if then is None:
        return (True, True, True, 0.0, 0.0)
    helps = change.effect is Effect.BETTER
    # Where one request does not fit, the longest context is all that can be compared.
    tokens, longest = then.tokens or 0, then.longest_context or 0
    return (not helps, then.gpus > now.gpus, not then.fits, -tokens, -longest)


def _tried(inputs: Inputs, lever: Lever, now: Standing, asked: Asked) -> Change:
    try:
        then = standing(inputs.with_args(**lever.args), asked)
    except KvplanError as error:
        return Change(
            flag=lever.flag,
            typed=lever.typed,
            cost=lever.cost,
            price=lever.price,
            effect=Effect.UNPLANNED,
            reason=error.problems[0].reason.strip().split("\n")[0],
        )
    return Change(
        flag=lever.flag,
        typed=lever.typed,
        cost=lever.cost,
        price=lever.price,
        effect=Effect.BETTER if is_better(then, now) else Effect.NO_BETTER,
        standing=then,
    )


def is_better(then: Standing, now: Standing) -> bool:
    """More requests at a time or a longer context, and neither of them less."""
    if then.fits is not now.fits:
        return then.fits
    gains = [
        (after or 0) / before if before else float(bool(after)) + 1
        for before, after in (
            (now.max_concurrency, then.max_concurrency),
            (now.longest_context, then.longest_context),
        )
    ]
    return max(gains) >= _LEAST_GAIN and min(gains) >= 1


def _together(
    inputs: Inputs, tried: Sequence[tuple[Lever, Change]], now: Standing, asked: Asked
) -> Lever | None:
    """The changes that cost speed alone and help, the best of each flag, all at once.

    Where not one request fits, those that cost room as well, and those that help only beside
    others. None where one is all.
    """
    prices = (Price.SPEED,) if now.fits else (Price.SPEED, Price.ROOM)
    best: dict[str, Lever] = {}
    # Of values that hold as much the last is the strongest, which counts beside others.
    strongest_first = tried[::-1]
    for lever, change in sorted(strongest_first, key=lambda pair: _rank(pair[1], now)):
        helps = change.effect is Effect.BETTER or (not now.fits and change.standing is not None)
        if lever.price in prices and helps:
            best.setdefault(lever.flag, lever)
    chosen = list(best.values())
    if not now.fits:
        chosen = _needed(inputs, chosen, asked)
    return None if len(chosen) < 2 else _joined(chosen)


def _needed(inputs: Inputs, chosen: list[Lever], asked: Asked) -> list[Lever]:
    """Those of the changes without which all of them together would hold less."""
    for lever in tuple(chosen):
        without = [other for other in chosen if other is not lever]
        if _reach(inputs, without, asked) == _reach(inputs, chosen, asked):
            chosen = without
    return chosen


def _reach(inputs: Inputs, chosen: Sequence[Lever], asked: Asked) -> tuple[int, int] | None:
    """Tokens and longest context of changes together; None where they are not planned."""
    args = {name: value for lever in chosen for name, value in lever.args.items()}
    try:
        then = standing(inputs.with_args(**args), asked)
    except KvplanError:
        return None
    return then.tokens or 0, then.longest_context or 0


def _joined(chosen: Sequence[Lever]) -> Lever:
    return Lever(
        flag=" ".join(lever.flag for lever in chosen),
        typed=" ".join(lever.typed for lever in chosen),
        args={name: value for lever in chosen for name, value in lever.args.items()},
        cost="; ".join(dict.fromkeys(lever.cost for lever in chosen)),
        price=Price.ROOM if any(each.price is Price.ROOM for each in chosen) else Price.SPEED,
    )
