"""What the answer says of a release that is not the newest known."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan_cli.engine_rules import (
    KEPT,
    NEWEST,
    DrafterRule,
    EngineRules,
    PrefillCheckpoints,
    TokenLine,
)
from kvplan_cli.results import Notice, NoticeKind
from kvplan_cli.service.target import Target
from kvplan_cli.specs import ChunkedLocalAttentionSpec, MambaSpec, SlidingWindowSpec

_HAND_OUT = {
    PrefillCheckpoints.NONE: "no recurrent layer hands out states inside a prefill",
    PrefillCheckpoints.DELTA_ATTENTION: "only delta attention hands out states inside a prefill",
    PrefillCheckpoints.MAMBA2: "gated delta layers hand out no states inside a prefill",
}


def release_notice(target: Target) -> Iterator[Notice]:
    """Which of the release's own rules touch this plan; all else is the newest one's."""
    rules = target.settings.rules
    if rules.release == NEWEST:
        return
    own = [*_own_rules(rules), *_rules_of_layers(rules, target), *_rules_of_drafts(rules, target)]
    followed = "; ".join(own) or "no rule of its own touches this model"
    compared = "" if rules.release in KEPT else " Its answers were not compared with the kept ones."
    yield Notice(
        kind=NoticeKind.NOTE,
        code="engine_version",
        message=f"As in vLLM {rules.release}: {followed}. Settings, backends and all else are "
        f"{NEWEST}'s.{compared}",
    )


def _own_rules(rules: EngineRules) -> Iterator[str]:
    if rules.token_line is TokenLine.BY_BLOCKS:
        yield "the log's token line is blocks // groups x block size"
    if not rules.reserves_null_block:
        yield "checks count the null block as usable"


def _rules_of_layers(rules: EngineRules, target: Target) -> Iterator[str]:
    specs = [spec for stage in target.workers for spec in stage.values()]
    local = (SlidingWindowSpec, ChunkedLocalAttentionSpec)
    if rules.single_batch_in_flight and any(isinstance(spec, local) for spec in specs):
        yield "windows keep room for one batch in flight"
    if rules.prefill_checkpoints in _HAND_OUT and any(isinstance(s, MambaSpec) for s in specs):
        yield _HAND_OUT[rules.prefill_checkpoints]


def _rules_of_drafts(rules: EngineRules, target: Target) -> Iterator[str]:
    drafter = target.settings.speculative
    if drafter is None:
        return
    if drafter.method == "ngram" and not rules.overlaps_ngrams:
        yield "steps do not overlap where n-grams are drafted"
    if drafter.num_prefill_lookahead_tokens > 1 and not rules.retains_draft_tokens:
        yield "windows keep no tokens for further draft modules"
    if drafter.use_eagle and rules.drafter_rule is DrafterRule.BY_SPEC_AND_POSITION:
        yield "drafter groups are found by spec and position"
