"""What the answer says of a release that is not the newest known."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan_cli.engine_rules import KEPT, NEWEST, DrafterRule, EngineRules, TokenLine
from kvplan_cli.results import Notice, NoticeKind


def release_notice(rules: EngineRules) -> Iterator[Notice]:
    """Which rules are the release's own, and which are still the newest one's."""
    if rules.release == NEWEST:
        return
    own = "; ".join(_own_rules(rules))
    compared = "" if rules.release in KEPT else " Its planner was not put to the kept cases."
    yield Notice(
        kind=NoticeKind.NOTE,
        code="engine_version",
        message=(
            f"Settings, backends and layer specs follow vLLM {NEWEST}; the planner follows "
            f"{rules.release} in this: {own}.{compared}"
        ),
    )


def _own_rules(rules: EngineRules) -> Iterator[str]:
    if rules.single_batch_in_flight:
        yield "windows keep room for one batch in flight"
    if not rules.retains_draft_tokens:
        yield "windows keep no tokens for further draft modules"
    if not rules.reserves_null_block:
        yield "checks count the null block as usable"
    if rules.token_line is TokenLine.BY_BLOCKS:
        yield "the log's token line is blocks // groups x block size"
    if rules.drafter_rule is DrafterRule.BY_SPEC_AND_POSITION:
        yield "drafter groups are found by spec and position"
