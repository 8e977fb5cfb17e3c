"""Does a model fit: the whole way from a request to the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN, EngineArgs
from kvplan_cli.errors import EngineRefusalError, MissingFieldError
from kvplan_cli.loader.coverage import proofs
from kvplan_cli.memory.budget import Estimate, RankBudget
from kvplan_cli.models.shape import MultimodalItem
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import MEMORY_REFUSALS, Plan, Refusal
from kvplan_cli.planner.state_blocks import with_captured_states
from kvplan_cli.recall import Call, call
from kvplan_cli.results import (
    FitRequest,
    FitResult,
    Notice,
    NoticeKind,
    StageSummary,
    Verdict,
)
from kvplan_cli.service.available import find_available
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.service.release import release_notice
from kvplan_cli.service.serving import served
from kvplan_cli.service.target import Target, completed, find_target
from kvplan_cli.service.way_out import Planner, find_way_out
from kvplan_cli.settings.cuda_graphs import graph_mode
from kvplan_cli.settings.mm_items import largest_whole_item
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass

# Keys that one notice lists.
_MOST_KEYS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The planner's outcomes at the low, likely and high end of the memory.

    decided_on: the end that the exit code follows: ``likely``, or ``low`` where no single
    number may be shown.
    """

    target: Target
    available: tuple[Estimate, ...]
    budgets: tuple[RankBudget, ...]
    low: Plan | Refusal
    likely: Plan | Refusal
    high: Plan | Refusal

    @property
    def decided_on(self) -> str:
        return "low" if any(budget.measure_it for budget in self.budgets) else "likely"

    @property
    def deciding(self) -> Plan | Refusal:
        return self.low if self.decided_on == "low" else self.likely


def fit(request: FitRequest) -> FitResult:
    """Plan one model on one memory.

    Raises: InputError, UnplannableError, EngineRefusalError (kvplan_cli.errors).
    """
    inputs = read_inputs(request)
    check_profile_of(inputs)
    return fit_result(request, inputs, answer_for(inputs))


def fit_result(
    request: FitRequest, inputs: Inputs, answer: Answer, recall: Call = call
) -> FitResult:
    """The whole answer of ``fit``, from what the inputs led to. recall: as in ``answer_for``."""
    target = answer.target

    def replan(changed: Inputs) -> Plan | Refusal | None:
        return _deciding_for(changed, recall)

    kept = _kept(request, inputs, target)
    return FitResult(
        model=inputs.name,
        model_origin=str(target.source.origin) if target.source else "plan file",
        architecture=target.architecture,
        engine_rules=inputs.rules,
        settings=_settings(target),
        gpu=inputs.gpu,
        gpu_assumed=inputs.gpu_assumed,
        origins=inputs.origins,
        stages=_stages(target),
        budgets=answer.budgets,
        available=answer.available,
        likely=answer.likely,
        low=answer.low,
        high=answer.high,
        decided_on=answer.decided_on,
        verdict=_verdict(answer),
        longest_context=_longest_context(inputs, answer, replan),
        way_out=find_way_out(inputs, answer.deciding, replan),
        notices=(
            *notices_of(inputs, target),
            *kept,
            *_balance_notice(inputs, answer, replan),
        ),
        measured=inputs.told.measured if inputs.told else None,
        serving=served(inputs, answer.deciding),
    )


def _kept(request: FitRequest, inputs: Inputs, target: Target) -> tuple[Notice, ...]:
    """Keep what was measured where that is asked for; what was written where."""
    if request.save_profile is None:
        return ()
    from kvplan_cli.service.profiles import save_profile

    return (save_profile(request.save_profile, inputs, target.architecture),)


def check_profile_of(inputs: Inputs) -> None:
    """A profile must be of this model, card and release. Raises: InputError."""
    if inputs.told is None or inputs.told.profile is None:
        return
    from kvplan_cli.service.profiles import check_profile

    check_profile(inputs.told.profile, inputs)


def notices_of(inputs: Inputs, target: Target) -> tuple[Notice, ...]:
    """What is to be said of inputs, release and model, whatever the plan."""
    return (
        *inputs.notices,
        *_told_notices(inputs),
        *release_notice(target),
        *_class_default_notice(target),
        *_unproved_notice(target),
        *_whole_item_notice(inputs, target),
    )


def _told_notices(inputs: Inputs) -> tuple[Notice, ...]:
    if inputs.told is None:
        return ()
    from kvplan_cli.service.told_notices import told_notices

    return told_notices(inputs.told, inputs.rules)


def answer_for(inputs: Inputs, recall: Call = call) -> Answer:
    """Resolve, find the memory, and plan at each end of it.

    recall: how the steps are called, for callers that ask about one model many times.
    Raises: as ``fit``.
    """
    target, available, budgets = find_memory(inputs, recall)
    args = inputs.args
    likely = plan_at(target, args, [estimate.likely for estimate in available], recall)
    low = high = likely
    if not all(estimate.is_certain for estimate in available):
        low = plan_at(target, args, [estimate.low for estimate in available], recall)
        high = plan_at(target, args, [estimate.high for estimate in available], recall)
    return Answer(
        target=target, available=available, budgets=budgets, low=low, likely=likely, high=high
    )


def find_memory(
    inputs: Inputs, recall: Call = call
) -> tuple[Target, tuple[Estimate, ...], tuple[RankBudget, ...]]:
    """What is planned, the bytes for it on each worker, and the ladders they come from.

    Raises: as ``fit``.
    """
    for _ in range(2):
        target = find_target(inputs, recall)
        try:
            available, budgets = find_available(inputs, target, recall)
        except MissingFieldError as missing:
            inputs = completed(inputs, target, missing, recall)
        else:
            return target, available, budgets
    target = find_target(inputs, recall)
    return target, *find_available(inputs, target, recall)


def plan_at(
    target: Target, args: EngineArgs, available: Sequence[int], recall: Call = call
) -> Plan | Refusal:
    """Plan on these bytes a worker; a refusal where more memory would mend it.

    Raises: EngineRefusalError where it would not.
    """
    outcome = plan(target.workers, available, target.settings, recall)
    if isinstance(outcome, Refusal) and outcome.kind not in MEMORY_REFUSALS:
        # More memory would not mend it: the engine cannot start with these flags.
        raise EngineRefusalError(
            stage="plan_error",
            error_type=outcome.error_type,
            message=outcome.message or outcome.error_type,
            way_out=outcome.explanation,
        )
    model = target.model
    if model is None or not model.rules.checks_captured_states:
        return outcome
    mode = graph_mode(
        args,
        runner=model.settings.runner_type,
        is_encoder_decoder=model.settings.is_encoder_decoder,
    )
    if not mode.has_full:
        return outcome
    if isinstance(outcome, Plan):
        return with_captured_states(outcome, model.settings.max_num_seqs)
    return outcome


def _deciding_for(inputs: Inputs, recall: Call) -> Plan | Refusal | None:
    """The deciding outcome of other inputs; None where they cannot be planned."""
    try:
        return answer_for(inputs, recall).deciding
    except EngineRefusalError:
        return None


def _verdict(answer: Answer) -> Verdict:
    if isinstance(answer.low, Plan):
        return Verdict.FITS
    return Verdict.DEPENDS if isinstance(answer.high, Plan) else Verdict.DOES_NOT_FIT


def _longest_context(inputs: Inputs, answer: Answer, replan: Planner) -> int | None:
    """What the engine would make of ``--max-model-len auto`` on the deciding memory."""
    deciding = answer.deciding
    if answer.target.settings.auto_fit:
        return deciding.max_model_len if isinstance(deciding, Plan) else None
    automatic = replan(inputs.with_args(max_model_len=AUTO_MAX_MODEL_LEN))
    if isinstance(automatic, Plan):
        return automatic.max_model_len
    # Models without a length limit of their own take no ``auto``.
    if automatic is None and isinstance(deciding, Plan):
        return deciding.max_model_len
    return None


def _settings(target: Target) -> ResolvedSettings | None:
    """The resolved settings, with the tokens in flight that the release counts."""
    if target.model is None:
        return None
    tokens = target.settings.max_in_flight_tokens
    return replace(target.model.settings, max_in_flight_tokens=tokens)


def _stages(target: Target) -> tuple[StageSummary, ...]:
    if target.model is None:
        return tuple(
            StageSummary(stage=i, cached_layers=len(worker), kv_shared_layers=0, backends={})
            for i, worker in enumerate(target.workers)
        )
    backends = target.model.backends
    return tuple(
        StageSummary(
            stage=i,
            cached_layers=len(stage),
            kv_shared_layers=len(backends.kv_shared_layers[i]),
            backends=backends.backends[i],
        )
        for i, stage in enumerate(backends.stages)
    )


def _class_default_notice(target: Target) -> tuple[Notice, ...]:
    if target.source is None or not target.source.value_origins:
        return ()
    by_origin: dict[str, list[str]] = {}
    for key, origin in target.source.value_origins.items():
        by_origin.setdefault(origin, []).append(key)
    return tuple(
        Notice(
            kind=NoticeKind.NOTE,
            code="config_values",
            message=f"{_listed(keys)}: not in the config itself; {origin}.",
        )
        for origin, keys in by_origin.items()
    )


def _unproved_notice(target: Target) -> tuple[Notice, ...]:
    if target.model is None or proofs(target.architecture) != 0:
        return ()
    return (
        Notice(
            kind=NoticeKind.WARNING,
            code="unproved_architecture",
            message=(
                f"No answer of the engine proves {target.architecture} yet: the plan follows the "
                "rules of its kin."
            ),
        ),
    )


def _whole_item_notice(inputs: Inputs, target: Target) -> tuple[Notice, ...]:
    """The engine finds out after it has planned, when its scheduler asks the model's processor."""
    traits = None if target.model is None else target.model.traits
    largest = None if traits is None else largest_whole_item(traits, inputs.args)
    if traits is None or largest is None or largest[1] <= target.settings.max_num_batched_tokens:
        return ()
    item, tokens = largest
    limit = target.settings.max_num_batched_tokens
    others = "" if traits.is_encoder_decoder else _without(item)
    return (
        Notice(
            kind=NoticeKind.WARNING,
            code="item_exceeds_batch",
            message=(
                f"The engine will stop at start: one {item.modality} takes {tokens:,} tokens in "
                f"one step, max_num_batched_tokens is {limit:,}. Give "
                f"--max-num-batched-tokens {tokens}{others}."
            ),
        ),
    )


def _without(item: MultimodalItem) -> str:
    return f", or serve none: --limit-mm-per-prompt.{item.modality} 0"


def _balance_notice(inputs: Inputs, answer: Answer, replan: Planner) -> tuple[Notice, ...]:
    if len(answer.budgets) < 2:
        return ()
    from kvplan_cli.service.balance import balance_notice

    return balance_notice(inputs, answer.target, answer.budgets, answer.deciding, replan)


def _listed(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_MOST_KEYS])
    more = len(keys) - _MOST_KEYS
    return f"{shown} and {more} more" if more > 0 else shown
