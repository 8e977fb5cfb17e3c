"""Printed figures beside predicted ones: the comparison itself, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.engine_rules import EngineRules, TokenLine
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.logs.printed import Figure, Printed
from kvplan_cli.logs.startup import StartupLog
from kvplan_cli.memory.budget import Estimate
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results_verify import Agreement, Comparison, Unit
from kvplan_cli.specs import KVCacheSpec, MambaSpec
from kvplan_cli.specs.bundle import LayerSpecs
from kvplan_cli.values import dataclass

_HUNDREDTHS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was started: workers, settings with the release's rules, and memory a worker.

    available: bytes as low and high, in what the log leaves possible.
    release_known: the log tells the release; where it does not, other rules are tried too.
    """

    workers: Sequence[LayerSpecs]
    settings: PlannerSettings
    available: Sequence[Estimate]
    release_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The planner's answers at both ends of the memory, under one release's rules."""

    low: Plan | Refusal
    high: Plan | Refusal
    rules: EngineRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A range of values; one value where both ends are equal."""

    low: int
    high: int


def outcomes(question: Question, rules: EngineRules) -> Outcomes:
    """Plan at both ends of the memory."""
    settings = replace(question.settings, rules=rules)
    low = plan(question.workers, [size.low for size in question.available], settings)
    high = low
    if not all(size.is_certain for size in question.available):
        high = plan(question.workers, [size.high for size in question.available], settings)
    return Outcomes(low=low, high=high, rules=rules)


def other_rules(rules: EngineRules) -> Iterator[tuple[str, EngineRules]]:
    """Rules of other releases that may explain a difference, with their words."""
    batch = not rules.single_batch_in_flight
    line = (
        TokenLine.BY_BLOCKS
        if rules.token_line is TokenLine.BY_CONCURRENCY
        else TokenLine.BY_CONCURRENCY
    )
    one_batch = "one batch in flight, as releases to 0.25 count"
    in_flight = one_batch if batch else "every batch in flight, as releases from 0.26 count"
    tokens = (
        "the token line of releases to 0.20.0"
        if line is TokenLine.BY_BLOCKS
        else "the token line of releases from 0.20.1"
    )
    yield tokens, replace(rules, token_line=line)
    yield in_flight, replace(rules, single_batch_in_flight=batch)
    yield (
        f"{tokens}, and {in_flight}",
        replace(rules, token_line=line, single_batch_in_flight=batch),
    )


def compare_capacity(log: StartupLog, question: Question) -> Iterator[Comparison]:
    """Tokens, requests, blocks, and the figures of a refusal."""
    rules = question.settings.rules
    first = outcomes(question, rules)
    for figure, unit in _CAPACITY_UNITS.items():
        printed = log.smallest(figure)
        if printed is None:
            continue
        predicted = _predicted(figure, first)
        compared = compared_figure(figure.value, "", unit, printed, predicted)
        if compared.agreement is Agreement.OFF:
            compared = _explained(figure, printed, question, compared)
        yield compared


_CAPACITY_UNITS: Final = {
    Figure.TOKENS: Unit.TOKENS,
    Figure.CONCURRENCY: Unit.HUNDREDTH_REQUESTS,
    Figure.GPU_BLOCKS: Unit.BLOCKS,
    Figure.NEEDED: Unit.BYTES,
    Figure.ESTIMATED_LENGTH: Unit.TOKENS,
    Figure.FITTED_LENGTH: Unit.TOKENS,
}


def _explained(figure: Figure, printed: Printed, question: Question, off: Comparison) -> Comparison:
    """The same, with the other release's rule that would agree; it counts where none is told."""
    for words, rules in other_rules(question.settings.rules):
        predicted = _predicted(figure, outcomes(question, rules))
        found = compared_figure(off.figure, off.of, off.unit, printed, predicted)
        if found.agreement in (Agreement.EQUAL, Agreement.WITHIN_ROUNDING):
            if question.release_known:
                return replace(off, reason=f"it agrees with {words}")
            return replace(found, reason=f"the log tells no release; with {words}")
    return replace(off, reason=off.reason or _off_reason(figure))


def _off_reason(figure: Figure) -> str:
    if figure in (Figure.NEEDED, Figure.ESTIMATED_LENGTH):
        return "flags that the log does not tell, or another release's rules"
    return "memory of another rank, flags that the log does not tell, or another release's rules"


def _predicted(figure: Figure, found: Outcomes) -> Predicted | str:
    """The range between both ends; words where there is no such figure."""
    ends = [_value(figure, end, found.rules) for end in (found.low, found.high)]
    numbers = [end for end in ends if isinstance(end, int)]
    if not numbers:
        return next(end for end in ends if isinstance(end, str))
    return Predicted(low=min(numbers), high=max(numbers))


def _value(figure: Figure, outcome: Plan | Refusal, rules: EngineRules) -> int | str:
    """The figure at one end of the memory; words where there is none."""
    if figure is Figure.NEEDED:
        return _needed(outcome)
    if figure is Figure.ESTIMATED_LENGTH:
        if isinstance(outcome, Plan):
            return "it fits by these rules"
        return outcome.estimated_max_model_len or 0
    if isinstance(outcome, Refusal):
        return _of_refused(figure, outcome, rules)
    values = {
        Figure.TOKENS: _tokens(outcome, rules),
        Figure.CONCURRENCY: _hundredths(outcome.max_concurrency),
        Figure.FITTED_LENGTH: outcome.max_model_len,
        Figure.GPU_BLOCKS: outcome.num_blocks,
    }
    value = values[figure]
    return "this model keeps no KV cache" if value is None else value


def _of_refused(figure: Figure, refusal: Refusal, rules: EngineRules) -> int | str:
    """V0 told its blocks before it refused a request that is longer than they hold."""
    block, needed, left = refusal.bytes_per_block, refusal.needed_bytes, refusal.available_bytes
    told = figure in (Figure.GPU_BLOCKS, Figure.CONCURRENCY)
    if not (told and block and needed and left is not None):
        return f"refused by these rules: {refusal.kind.value}"
    blocks = left // block + (1 if rules.reserves_null_block else 0)
    return blocks if figure is Figure.GPU_BLOCKS else _hundredths(blocks * block / needed) or 0


def _tokens(outcome: Plan, rules: EngineRules) -> int | None:
    if rules.token_line is TokenLine.BY_BLOCKS:
        return outcome.kv_cache_size_tokens_by_blocks
    return outcome.kv_cache_size_tokens


def _hundredths(concurrency: float | None) -> int | None:
    """As the engine prints it, rounding as format() does."""
    return None if concurrency is None else int(f"{concurrency:.2f}".replace(".", ""))


def _needed(outcome: Plan | Refusal) -> int | str:
    if isinstance(outcome, Plan):
        return max(worker.request_need_bytes for worker in outcome.workers)
    if outcome.needed_bytes is None:
        return f"refused by these rules: {outcome.kind.value}"
    return outcome.needed_bytes


def compare_layers(log: StartupLog, question: Question) -> Iterator[Comparison]:
    """What the engine says while it shapes pages and groups of hybrid models."""
    block = log.smallest(Figure.ATTENTION_BLOCK)
    specs = [spec for worker in question.workers for spec in worker.values()]
    if block is not None:
        sizes = {spec.block_size for spec in specs if not isinstance(spec, MambaSpec)}
        value = Predicted(low=max(sizes), high=max(sizes)) if sizes else "no attention layer"
        yield compared_figure(
            Figure.ATTENTION_BLOCK.value, "", Unit.TOKENS, block, value, _BLOCK_REASON
        )
    padding = log.smallest(Figure.MAMBA_PADDING)
    if padding is not None:
        yield compared_figure(
            Figure.MAMBA_PADDING.value,
            "",
            Unit.HUNDREDTH_PERCENT,
            padding,
            _mamba_padding(specs),
            _BLOCK_REASON,
        )


_BLOCK_REASON: Final = "another card or attention backend has other block sizes"


def _mamba_padding(specs: Sequence[KVCacheSpec]) -> Predicted | str:
    states = [spec for spec in specs if isinstance(spec, MambaSpec)]
    if not states:
        return "no state layer"
    page, content = states[0].page_size_bytes, states[0].state_content_size_bytes
    percent = int(f"{100 * (page - content) / content:.2f}".replace(".", ""))
    return Predicted(low=percent, high=percent)


def compared_estimate(
    figure: str, of: str, printed: Printed, predicted: Estimate, reason: str
) -> Comparison:
    """A figure in bytes beside an estimate: its range counts."""
    likely = Predicted(low=predicted.likely, high=predicted.likely)
    found = compared_figure(figure, of, Unit.BYTES, printed, likely, reason)
    found = replace(found, predicted_low=predicted.low, predicted_high=predicted.high)
    if found.agreement is not Agreement.OFF:
        return replace(found, reason=None)
    if printed.holds(predicted.low, predicted.high):
        return replace(found, agreement=Agreement.IN_RANGE, reason=None)
    return found


def compared_figure(
    figure: str,
    of: str,
    unit: Unit,
    printed: Printed,
    predicted: Predicted | str,
    reason: str | None = None,
) -> Comparison:
    """One figure. reason: why it may be off. Words in place of a range: why there is none."""
    low = high = likely = None
    if isinstance(predicted, str):
        agreement, reason = Agreement.OFF, predicted
    else:
        low, high = predicted.low, predicted.high
        likely = (low + high) // 2
        agreement = _agreement(printed, predicted)
    return Comparison(
        figure=figure,
        of=of,
        unit=unit,
        printed=printed.text,
        printed_low=printed.low,
        printed_high=printed.high,
        line=printed.line,
        predicted_low=low,
        predicted_likely=likely,
        predicted_high=high,
        agreement=agreement,
        reason=reason if agreement is Agreement.OFF else None,
    )


def _agreement(printed: Printed, predicted: Predicted) -> Agreement:
    if not printed.holds(predicted.low, predicted.high):
        return Agreement.OFF
    exact = printed.exact and predicted.low == predicted.high
    return Agreement.EQUAL if exact else Agreement.WITHIN_ROUNDING
