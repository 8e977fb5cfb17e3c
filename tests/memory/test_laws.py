"""Laws: more of the card is never less, more ranks are never heavier."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import H100_80GB
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.ladder import rank_budgets
from kvplan_cli.memory.weights.count import count_weights, rank_tensors
from kvplan_cli.memory.weights.tensors import allocated_bytes, total_bytes
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import ArchitectureTraits
from kvplan_cli.settings.resolved import ResolvedSettings
from tests.memory.builders import LLAMA, settings

_TRAITS = ArchitectureTraits(architecture="LlamaForCausalLM")


def _available(resolved: ResolvedSettings) -> Estimate:
    config = HfConfig(LLAMA)
    weights = Estimate.certain(1 << 30, Source.GIVEN)
    (budget,) = rank_budgets(
        H100_80GB, config, model_shape(config), _TRAITS, resolved, EngineArgs(), (weights,)
    )
    return budget.available


@st.composite
def _llamas(draw: st.DrawFn) -> HfConfig:
    heads = draw(st.sampled_from([8, 16, 32]))
    return HfConfig(
        {
            **LLAMA,
            "hidden_size": heads * 64,
            "num_attention_heads": heads,
            "num_key_value_heads": draw(st.sampled_from([1, 2, 4, 8])),
            "intermediate_size": 64 * draw(st.integers(1, 64)),
            "vocab_size": draw(st.integers(1, 70_000)),
            "num_hidden_layers": draw(st.integers(1, 6)),
            "tie_word_embeddings": draw(st.booleans()),
        }
    )


@given(st.floats(0.05, 0.99), st.floats(0.05, 0.99))
def test_more_utilization_is_never_less(first: float, second: float) -> None:
    less, more = sorted((first, second))
    small = _available(settings(gpu_memory_utilization=less))
    large = _available(settings(gpu_memory_utilization=more))
    assert small.low <= large.low
    assert small.likely <= large.likely
    assert small.high <= large.high


@given(st.integers(1, 65_536), st.integers(1, 65_536), st.integers(1, 2048))
def test_larger_batches_never_leave_more(first: int, second: int, seqs: int) -> None:
    less, more = sorted((first, second))
    small = _available(settings(max_num_batched_tokens=less, max_num_seqs=seqs))
    large = _available(settings(max_num_batched_tokens=more, max_num_seqs=seqs))
    assert small.likely >= large.likely
    assert small.low >= large.low


@given(st.integers(64, 8192), st.integers(1, 1024))
def test_low_likely_high_stand_in_order(tokens: int, seqs: int) -> None:
    available = _available(settings(max_num_batched_tokens=tokens, max_num_seqs=seqs))
    assert available.low <= available.likely <= available.high


@given(_llamas())
def test_tensor_parallelism_never_raises_a_ranks_weights(config: HfConfig) -> None:
    shape = model_shape(config)
    sizes = [
        count_weights(config, shape, settings(tensor_parallel_size=ranks), EngineArgs())[0].low
        for ranks in (1, 2, 4, 8)
    ]
    assert sizes == sorted(sizes, reverse=True)


@given(_llamas(), st.integers(1, 6))
def test_stages_hold_every_layer_once(config: HfConfig, stages: int) -> None:
    shape = model_shape(config)
    stages = min(stages, shape.num_hidden_layers)
    tensors = rank_tensors(config, shape, settings(pipeline_parallel_size=stages), EngineArgs())
    outputs = [t for stage in tensors for t in stage if t.name == "o_proj.weight"]
    assert len(outputs) == shape.num_hidden_layers


@given(_llamas())
def test_allocator_never_books_less(config: HfConfig) -> None:
    (tensors,) = rank_tensors(config, model_shape(config), settings(), EngineArgs())
    assert allocated_bytes(tensors) >= total_bytes(tensors)
