"""The ladder's arithmetic, and where no single number may be shown."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.budget import Estimate, RankBudget, Source
from kvplan_cli.memory.buffers import moe_workspace, persistent_buffers
from kvplan_cli.memory.ladder import rank_budgets, requested_bytes
from kvplan_cli.memory.outside import captured_sizes, cuda_graphs, has_nvlink, outside_allocator
from kvplan_cli.memory.releases import NEWEST_MEMORY, memory_rules
from kvplan_cli.memory.runner_buffers import RankState
from kvplan_cli.memory.sizes import ProfileSizes, profile_sizes
from kvplan_cli.memory.transient import ENCODER_PEAK, transient
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from kvplan_cli.units import GIB
from tests.memory.builders import LLAMA, LLAMA_SIZES, settings

_NAMES = ["weights", "persistent_buffers", "outside_allocator", "transient", "cuda_graphs"]
_WEIGHTS = Estimate(low=10 * GIB, likely=11 * GIB, high=12 * GIB, source=Source.COMPUTED)


def _budgets(
    *, stages: int = 1, traits: dict[str, Any] | None = None, **flags: Any
) -> tuple[RankBudget, ...]:
    config = HfConfig(LLAMA)
    return rank_budgets(
        H100_80GB,
        config,
        model_shape(config),
        ArchitectureTraits(architecture="LlamaForCausalLM", **(traits or {})),
        settings(pipeline_parallel_size=stages),
        EngineArgs(**flags),
        (_WEIGHTS,) * stages,
    )


def test_requested_is_rounded_up() -> None:
    assert requested_bytes(85_520_809_984, 0.92) == math.ceil(85_520_809_984 * 0.92)
    assert requested_bytes(101, 0.5) == 51


def test_available_is_requested_less_every_line() -> None:
    (budget,) = _budgets()
    taken = [line.bytes_per_rank for line in budget.lines]
    assert [line.name for line in budget.lines] == _NAMES
    assert budget.available.low == budget.requested_bytes - sum(each.high for each in taken)
    assert budget.available.likely == budget.requested_bytes - sum(each.likely for each in taken)
    assert budget.available.high == budget.requested_bytes - sum(each.low for each in taken)
    assert budget.measure_it is None


def test_every_line_is_a_range_with_a_source_and_a_note() -> None:
    for budget in _budgets(stages=2):
        for line in budget.lines[1:]:
            estimate = line.bytes_per_rank
            assert 0 <= estimate.low <= estimate.likely <= estimate.high
            assert estimate.note


def test_one_weight_a_stage_is_needed() -> None:
    config = HfConfig(LLAMA)
    with pytest.raises(ValueError, match="2 weights for 1 pipeline stages"):
        rank_budgets(
            H100_80GB,
            config,
            model_shape(config),
            ArchitectureTraits(architecture="LlamaForCausalLM"),
            settings(),
            EngineArgs(),
            (_WEIGHTS, _WEIGHTS),
        )


def test_only_the_last_stage_samples() -> None:
    first, last = _budgets(stages=2)
    transients = [budget.lines[3].bytes_per_rank.likely for budget in (first, last)]
    assert transients[0] < transients[1]


def test_eager_mode_keeps_nothing_for_graphs() -> None:
    def graphs(args: EngineArgs, release: tuple[int, int, int] = (0, 33, 0)) -> Estimate:
        return cuda_graphs(32, H100_80GB, settings(), args, memory_rules(release))

    assert graphs(EngineArgs(enforce_eager=True)).high == 0
    switched_off = EngineArgs(env={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"})
    assert graphs(switched_off).high == 0
    assert graphs(EngineArgs(), (0, 20, 2)).high == 0
    assert graphs(EngineArgs()).likely == int((0.33 + 0.0166 * 32) * GIB)


@pytest.mark.parametrize(
    ("max_num_seqs", "capability", "expected"),
    [
        (1, (9, 0), 2),
        (16, (9, 0), 7),
        (32, (9, 0), 11),
        (256, (9, 0), 51),
        (1024, (9, 0), 51),
        (1024, (10, 0), 83),
        (1024, (12, 0), 51),
    ],
)
def test_graphs_follow_the_captured_sizes(
    max_num_seqs: int, capability: tuple[int, int], expected: int
) -> None:
    card = Gpu(name="card", capability=capability, total_memory_bytes=1)
    assert captured_sizes(max_num_seqs, card) == expected


def test_releases_account_differently() -> None:
    old, middle = memory_rules((0, 19, 0)), memory_rules((0, 31, 0))
    assert (old.takes_graphs, old.lasting_buffers, old.flashinfer_sampler) == (False, False, True)
    assert (middle.takes_graphs, middle.flashinfer_sampler) == (True, False)
    assert memory_rules(None) == memory_rules((0, 33, 0)) == NEWEST_MEMORY
    two = settings(tensor_parallel_size=4)
    assert outside_allocator(H100_80GB, two, old).likely > outside_allocator(H100_80GB, two).likely
    lasting = persistent_buffers(LLAMA_SIZES, settings(), state=RankState(), rules=old)
    assert lasting.high == 0


@pytest.mark.parametrize(
    ("traits", "flags", "word"),
    [
        ({"is_multimodal": True}, {}, "--skip-mm-profiling"),
        ({"is_multimodal": True}, {"skip_mm_profiling": True}, None),
        ({"is_multimodal": True}, {"language_model_only": True}, None),
        ({"is_hybrid": True}, {}, "state layers"),
        ({}, {}, None),
    ],
)
def test_where_no_single_number_may_be_shown(
    traits: dict[str, Any], flags: dict[str, Any], word: str | None
) -> None:
    (budget,) = _budgets(traits=traits, **flags)
    if word is None:
        assert budget.measure_it is None
    else:
        assert budget.measure_it is not None
        assert word in budget.measure_it


def test_encoder_widens_the_peak_of_the_first_stage_only() -> None:
    first, last = _budgets(stages=2, traits={"is_multimodal": True})
    assert first.lines[3].bytes_per_rank.high == ENCODER_PEAK
    assert last.lines[3].bytes_per_rank.high < ENCODER_PEAK
    assert last.measure_it is None


def test_speculation_and_indexers_are_to_be_measured() -> None:
    config = HfConfig({**LLAMA, "index_topk": 2048})
    traits = ArchitectureTraits(architecture="LlamaForCausalLM")
    for each, resolved in (
        (config, settings()),
        (HfConfig(LLAMA), settings(num_speculative_tokens=2, speculative_method="ngram")),
    ):
        (budget,) = rank_budgets(
            H100_80GB, each, model_shape(each), traits, resolved, EngineArgs(), (_WEIGHTS,)
        )
        assert budget.measure_it is not None


def test_sampler_peak_needs_no_flashinfer() -> None:
    with_it = transient(LLAMA_SIZES, settings(), {}, is_last_stage=True, profiles_encoder=False)
    without = transient(
        LLAMA_SIZES,
        settings(),
        {"VLLM_USE_FLASHINFER_SAMPLER": "0"},
        is_last_stage=True,
        profiles_encoder=False,
    )
    assert without.likely < with_it.likely
    assert with_it.low == without.low


def test_pooling_has_no_sampler() -> None:
    pooled = settings(runner_type=RunnerType.POOLING)
    assert (
        persistent_buffers(LLAMA_SIZES, pooled, state=RankState()).high
        < persistent_buffers(LLAMA_SIZES, settings(), state=RankState()).low
    )


def test_buffers_of_the_spec() -> None:
    # 0.13 GiB at 256 requests and 128k words, 0.63 at 1024 and 152k.
    small = persistent_buffers(
        LLAMA_SIZES, settings(max_num_seqs=256, max_num_batched_tokens=2048), state=RankState()
    )
    assert round(small.likely / GIB, 2) == 0.13
    large = persistent_buffers(
        ProfileSizes(hidden_size=4096, vocab_size=151936, intermediate_size=1),
        settings(),
        state=RankState(),
    )
    assert round(large.likely / GIB, 2) == 0.63


def test_expert_workspace_counts_where_its_kernel_runs() -> None:
    sizes = ProfileSizes(
        hidden_size=4096,
        vocab_size=32000,
        intermediate_size=14336,
        experts=8,
        experts_per_token=2,
        expert_intermediate_size=14336,
    )
    workspace = moe_workspace(sizes, settings(tensor_parallel_size=2))
    assert workspace == 2 * 8192 * 2 * (7168 + 14336)
    plain = persistent_buffers(sizes, settings(), state=RankState())
    mxfp4 = persistent_buffers(sizes, settings(quantization="gpt_oss_mxfp4"), state=RankState())
    assert plain.likely == plain.high
    assert mxfp4.likely == mxfp4.low < mxfp4.high


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 PCIe", False),
        ("NVIDIA A100-PCIE-40GB", False),
        ("NVIDIA L40S", False),
        ("NVIDIA GeForce RTX 4090", False),
    ],
)
def test_nvlink_is_read_off_the_name(name: str, expected: bool) -> None:
    card = Gpu(name=name, capability=(9, 0), total_memory_bytes=1)
    assert has_nvlink(card) is expected


def test_outside_grows_with_ranks() -> None:
    one = outside_allocator(H100_80GB, settings())
    two = outside_allocator(H100_80GB, settings(tensor_parallel_size=2))
    assert one.high < two.likely


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"n_embd": 768, "vocab_size": 50257},
            ProfileSizes(hidden_size=768, vocab_size=50257, intermediate_size=3072),
        ),
        (
            {"hidden_size": 8, "vocab_size": 9, "intermediate_size": [4, 7]},
            ProfileSizes(hidden_size=8, vocab_size=9, intermediate_size=7),
        ),
        (
            {
                "d_model": 6144,
                "vocab_size": 100352,
                "ffn_config": {
                    "ffn_hidden_size": 10752,
                    "moe_num_experts": 16,
                    "moe_top_k": 4,
                },
            },
            ProfileSizes(
                hidden_size=6144,
                vocab_size=100352,
                intermediate_size=10752,
                experts=16,
                experts_per_token=4,
                expert_intermediate_size=10752,
            ),
        ),
    ],
)
def test_sizes_under_older_names(config: dict[str, Any], expected: ProfileSizes) -> None:
    assert profile_sizes(HfConfig(config)) == expected
