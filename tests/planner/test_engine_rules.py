"""Which rules a release has, and what they change in a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan_cli.engine_rules import (
    NEWEST_RULES,
    DrafterRule,
    PrefillCheckpoints,
    TokenLine,
    engine_rules,
)
from kvplan_cli.errors import InputError
from kvplan_cli.grouping.settings import SpeculativeSettings
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.specs import KVCacheSpec, SlidingWindowSpec
from kvplan_cli.units import GIB
from tests.planner.test_planner import FULL, SETTINGS, layers

WINDOW = SlidingWindowSpec(
    block_size=16,
    num_kv_heads=8,
    head_size=128,
    dtype=FULL.dtype,
    sliding_window=1024,
)


def at(release: str, *specs: KVCacheSpec, memory: int = GIB) -> Plan | Refusal:
    settings = replace(SETTINGS, rules=engine_rules(release))
    return plan([layers(*specs)], [memory], settings)


def blocks(release: str, *specs: KVCacheSpec) -> tuple[int, ...]:
    outcome = at(release, *specs)
    assert isinstance(outcome, Plan)
    return outcome.workers[0].blocks_per_request_by_group


@pytest.mark.parametrize(
    ("release", "line", "single", "retains", "null", "drafters"),
    [
        ("0.10.1", TokenLine.BY_BLOCKS, True, False, False, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.20", TokenLine.BY_BLOCKS, True, False, False, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.20.1", TokenLine.BY_CONCURRENCY, True, False, False, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.25.1", TokenLine.BY_CONCURRENCY, True, False, False, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.26.0", TokenLine.BY_CONCURRENCY, False, False, False, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.28.0", TokenLine.BY_CONCURRENCY, False, True, False, DrafterRule.BY_SPEC_AND_POSITION),
        ("v0.29.0", TokenLine.BY_CONCURRENCY, False, True, True, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.32.0", TokenLine.BY_CONCURRENCY, False, True, True, DrafterRule.BY_SPEC_AND_POSITION),
        ("0.33.0", TokenLine.BY_CONCURRENCY, False, True, True, DrafterRule.BY_LAYER),
    ],
)
def test_rules_by_release(
    release: str,
    line: TokenLine,
    single: bool,
    retains: bool,
    null: bool,
    drafters: DrafterRule,
) -> None:
    rules = engine_rules(release)
    assert rules.token_line is line
    assert rules.single_batch_in_flight is single
    assert rules.retains_draft_tokens is retains
    assert rules.reserves_null_block is null
    assert rules.drafter_rule is drafters


@pytest.mark.parametrize(
    ("release", "layers"),
    [
        ("0.28.0", PrefillCheckpoints.NONE),
        ("0.29.0", PrefillCheckpoints.DELTA_ATTENTION),
        ("0.31.0", PrefillCheckpoints.DELTA_ATTENTION),
        ("0.32.0", PrefillCheckpoints.MAMBA2),
        ("0.33.0", PrefillCheckpoints.GATED_DELTA),
    ],
)
def test_states_handed_out_inside_a_prefill(release: str, layers: PrefillCheckpoints) -> None:
    assert engine_rules(release).prefill_checkpoints is layers


def test_the_newest_release_is_the_default() -> None:
    assert engine_rules("0.33.0") == NEWEST_RULES == SETTINGS.rules


@pytest.mark.parametrize(
    "release", ["", "0", "0.9.2", "0.34.0", "1.0", "0.26.1rc1.dev156", "0.25.x", "٠.٣٣", "main"]
)
def test_an_unknown_release_names_the_kept_ones(release: str) -> None:
    with pytest.raises(InputError, match=r"0\.33\.0 and 0\.32\.0 are kept"):
        engine_rules(release)


def test_windows_hold_every_batch_in_flight_from_0_26() -> None:
    # 1,023 + 2,048 tokens are 192 blocks, 1,023 + 4,096 are 320; one more for a window's start.
    assert blocks("0.25.1", WINDOW) == (193,)
    assert blocks("0.26.0", WINDOW) == (321,)


def test_the_null_block_is_held_back_from_0_29() -> None:
    need = 512 * FULL.page_size_bytes
    assert isinstance(at("0.28.0", FULL, memory=need), Plan)
    assert isinstance(at("0.29.0", FULL, memory=need), Refusal)


def test_windows_keep_what_further_draft_modules_read_from_0_28() -> None:
    drafter = SpeculativeSettings(method="mtp", num_speculative_tokens=18, num_draft_modules=2)
    needs = []
    for release in ("0.27.1", "0.28.0"):
        settings = replace(SETTINGS, rules=engine_rules(release), speculative=drafter)
        outcome = plan([layers(WINDOW)], [GIB], settings)
        assert isinstance(outcome, Plan)
        needs.append(outcome.workers[0].blocks_per_request_by_group[0])
    assert needs == [321, 322]
