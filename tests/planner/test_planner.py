"""The planner where a table says more than a vector: refusals, layouts, and wrong calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.grouping.packed import least_padding_chunk
from kvplan_cli.grouping.settings import PlannerSettings, max_concurrent_batches
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import Plan, Refusal, RefusalKind
from kvplan_cli.specs import (
    EncoderOnlyAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)
from kvplan_cli.units import GIB, format_gib, largest_fitting

FULL = FullAttentionSpec(block_size=16, num_kv_heads=8, head_size=128, dtype=DType.BFLOAT16)
SETTINGS = PlannerSettings(
    max_model_len=8192, max_num_batched_tokens=2048, max_concurrent_batches=2
)


def layers(*specs: KVCacheSpec) -> dict[str, KVCacheSpec]:
    return {f"model.layers.{i}.attn": spec for i, spec in enumerate(specs)}


def refused(settings: PlannerSettings, *specs: KVCacheSpec) -> Refusal:
    outcome = plan([layers(*specs)], [GIB], settings)
    assert isinstance(outcome, Refusal)
    return outcome


def test_the_null_block_is_held_back_from_a_request_but_allocated() -> None:
    block = FULL.page_size_bytes
    need = 512 * block
    assert isinstance(plan([layers(FULL)], [need], SETTINGS), Refusal)
    fitting = plan([layers(FULL)], [need + block], SETTINGS)
    assert isinstance(fitting, Plan)
    assert fitting.num_blocks == 513


def test_the_estimate_of_a_refusal_is_the_longest_that_fits() -> None:
    memory = [100 * FULL.page_size_bytes]
    refusal = plan([layers(FULL)], memory, SETTINGS)
    assert isinstance(refusal, Refusal)
    assert refusal.estimated_max_model_len == 99 * 16
    assert (refusal.worker, refusal.max_model_len) == (0, 8192)
    assert refusal.needed_bytes == 512 * FULL.page_size_bytes
    assert refusal.available_bytes == 99 * FULL.page_size_bytes


@pytest.mark.parametrize("memory", [0, 1, FULL.page_size_bytes, -GIB])
def test_no_memory(memory: int) -> None:
    refusal = plan([layers(FULL)], [memory], SETTINGS)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.NO_MEMORY


def test_auto_fit_without_room_for_a_token() -> None:
    refusal = plan([layers(FULL)], [10], replace(SETTINGS, auto_fit=True))
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.CANNOT_AUTO_FIT


def test_states_must_align_with_prefix_hits() -> None:
    compressed = MLAAttentionSpec(
        block_size=64, num_kv_heads=1, head_size=576, dtype=DType.BFLOAT16, tokens_per_state=48
    )
    window = SlidingWindowSpec(
        block_size=64, num_kv_heads=1, head_size=64, dtype=DType.BFLOAT16, sliding_window=128
    )
    settings = replace(SETTINGS, supported_layouts=(KVCacheLayout.BLHNC,))
    refusal = refused(settings, compressed, window)
    # As vLLM 0.33.0 printed it for these two layers.
    assert refusal.message == (
        "Invalid prefix_match_unit=64; prefix-cache boundaries must align with each spec's "
        "per-state compression. Got alignments=[48]."
    )


def test_encoder_layers_have_no_cache() -> None:
    encoder = EncoderOnlyAttentionSpec(
        block_size=16, num_kv_heads=8, head_size=128, dtype=DType.BFLOAT16
    )
    assert refused(SETTINGS, encoder).kind is RefusalKind.UNSUPPORTED_SPEC


@pytest.mark.parametrize(
    ("requested", "layout"), [("NHD", "LBNHC"), ("HND", "LBHNC"), ("BLHNC", "BLHNC")]
)
def test_requested_layouts(requested: str, layout: str) -> None:
    outcome = plan([layers(FULL)], [GIB], replace(SETTINGS, requested_layout=requested))
    assert outcome.layout is KVCacheLayout(layout)


def test_a_layout_that_no_backend_takes() -> None:
    settings = replace(SETTINGS, supported_layouts=(KVCacheLayout.LBNHC,), requested_layout="BLHNC")
    assert refused(settings, FULL).message == (
        "VLLM_KV_CACHE_LAYOUT=BLHNC does not satisfy every supported set; valid layouts: ['LBNHC']."
    )


def test_a_model_without_a_cache_holds_the_null_block() -> None:
    outcome = plan([{}], [GIB], SETTINGS)
    assert isinstance(outcome, Plan)
    assert (outcome.num_blocks, outcome.max_concurrency, outcome.groups) == (1, None, ())


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="1 workers but 2 memories"):
        plan([layers(FULL)], [GIB, GIB], SETTINGS)
    other = replace(FULL, num_kv_heads=4)
    with pytest.raises(ValueError, match="stored differently"):
        plan([layers(FULL), layers(other)], [GIB, GIB], SETTINGS)


@pytest.mark.parametrize(
    ("stages", "asynchronous", "v2", "batches"),
    [
        (1, True, True, 2),
        (4, True, True, 5),
        (1, False, True, 1),
        (4, False, True, 4),
        (1, True, False, 2),
        (4, True, False, 4),
    ],
)
def test_batches_in_flight(stages: int, asynchronous: bool, v2: bool, batches: int) -> None:
    assert batches == max_concurrent_batches(
        pipeline_parallel_size=stages, async_scheduling=asynchronous, use_v2_model_runner=v2
    )


@pytest.mark.parametrize(
    ("values", "lower", "chunk"),
    # Ties take the larger chunk; a floor above all values is the answer itself.
    [([10, 20], 1, 10), ([10, 15], 1, 5), ([7], 1, 7), ([10, 20], 8, 10), ([3], 5, 5)],
)
def test_least_padding_chunk(values: list[int], lower: int, chunk: int) -> None:
    assert least_padding_chunk(values, lower) == chunk


@pytest.mark.parametrize(
    ("size", "text"), [(GIB, "1.0"), (0, "0.0"), (GIB * 5 // 2, "2.5"), (12345678901, "11.5")]
)
def test_gib_as_the_engine_prints_it(size: int, text: str) -> None:
    assert format_gib(size) == text


@pytest.mark.parametrize("bound", range(12))
def test_largest_fitting(bound: int) -> None:
    assert largest_fitting(lambda n: n <= bound, 10) == min(bound, 10)
