"""Recurrent states under captured graphs: a block for each request of a step."""

from __future__ import annotations

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import MEMORY_REFUSALS, Plan, Refusal
from kvplan_cli.planner.state_blocks import with_captured_states
from kvplan_cli.specs import FullAttentionSpec, KVCacheSpec, MambaCacheMode, MambaSpec
from kvplan_cli.units import MIB

STATE = MambaSpec(
    block_size=4096,
    shapes=((1024, 1024),),
    dtypes=(DType.BFLOAT16,),
    mamba_cache_mode=MambaCacheMode.NONE,
)
FULL = FullAttentionSpec(block_size=1024, num_kv_heads=4, head_size=128, dtype=DType.BFLOAT16)


def planned(spec: KVCacheSpec) -> Plan:
    outcome = plan(
        [{"model.layers.0.mixer": spec}],
        [64 * MIB],
        PlannerSettings(max_model_len=4096, max_num_batched_tokens=2048, max_concurrent_batches=2),
    )
    assert isinstance(outcome, Plan)
    assert outcome.num_blocks == 32
    return outcome


@pytest.mark.parametrize(("spec", "requests"), [(STATE, 32), (FULL, 1024)])
def test_enough_states(spec: KVCacheSpec, requests: int) -> None:
    outcome = planned(spec)
    assert with_captured_states(outcome, requests) is outcome


def test_too_few_states() -> None:
    refusal = with_captured_states(planned(STATE), 33)
    assert isinstance(refusal, Refusal)
    assert refusal.kind in MEMORY_REFUSALS
    assert (refusal.needed_blocks, refusal.available_blocks) == (33, 32)
    assert "Please lower max_num_seqs to at most 32 or increase" in refusal.message
