"""From layers to stages: order, sharing, pipeline split and shared objects."""

from __future__ import annotations

import pytest

from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.models.shape import AttentionKind, OwnCache
from kvplan_cli.specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)
from tests.backends.builders import chunked, layer, plan, sliding


def test_each_kind_has_its_spec() -> None:
    answer = plan(layer(0), sliding(1, 1024), chunked(2, 8192))
    assert list(answer.stages[0].values()) == [
        FullAttentionSpec(block_size=16, num_kv_heads=4, head_size=128, dtype=DType.BFLOAT16),
        SlidingWindowSpec(
            block_size=16,
            num_kv_heads=4,
            head_size=128,
            dtype=DType.BFLOAT16,
            sliding_window=1024,
        ),
        ChunkedLocalAttentionSpec(
            block_size=16,
            num_kv_heads=4,
            head_size=128,
            dtype=DType.BFLOAT16,
            attention_chunk_size=8192,
        ),
    ]


def test_equal_specs_are_one_object_over_all_stages() -> None:
    layers = [layer(i) if i % 4 == 3 else sliding(i) for i in range(8)]
    answer = plan(*layers, pipeline_parallel_size=2)
    assert [len(stage) for stage in answer.stages] == [4, 4]
    assert len({id(spec) for stage in answer.stages for spec in stage.values()}) == 2


def test_an_explicit_partition() -> None:
    args = EngineArgs(env={"VLLM_PP_LAYER_PARTITION": "1,3"})
    answer = plan(*map(layer, range(4)), pipeline_parallel_size=2, args=args)
    assert [list(stage) for stage in answer.stages] == [
        ["model.layers.0.self_attn.attn"],
        [f"model.layers.{index}.self_attn.attn" for index in (1, 2, 3)],
    ]
    assert [dict(backends) for backends in answer.backends] == [
        {"FLASH_ATTN": 1},
        {"FLASH_ATTN": 3},
    ]


@pytest.mark.parametrize(
    ("kv_heads", "tensor_parallel_size", "on_a_rank"), [(4, 1, 4), (4, 2, 2), (4, 8, 1), (1, 8, 1)]
)
def test_heads_on_a_rank(kv_heads: int, tensor_parallel_size: int, on_a_rank: int) -> None:
    answer = plan(layer(num_kv_heads=kv_heads), tensor_parallel_size=tensor_parallel_size)
    (spec,) = answer.stages[0].values()
    assert isinstance(spec, AttentionSpec)
    assert spec.num_kv_heads == on_a_rank


def test_layers_that_share_a_cache_have_a_backend_but_no_spec() -> None:
    target = "model.layers.0.self_attn.attn"
    answer = plan(layer(0), layer(1, kv_sharing_target=target))
    assert list(answer.stages[0]) == [target]
    assert dict(answer.kv_shared_layers[0]) == {"model.layers.1.self_attn.attn": target}
    assert dict(answer.backends[0]) == {"FLASH_ATTN": 2}


def test_encoders_keep_nothing() -> None:
    answer = plan(*(layer(index, kind=AttentionKind.ENCODER_ONLY) for index in range(3)))
    assert dict(answer.stages[0]) == {}
    assert dict(answer.backends[0]) == {"FLASH_ATTN": 3}


def test_a_prefix_lm_layer_is_marked() -> None:
    answer = plan(layer(0, non_causal=True))
    (spec,) = answer.stages[0].values()
    assert isinstance(spec, FullAttentionSpec)
    assert spec.non_causal


def only(answer_stage: dict[str, KVCacheSpec]) -> AttentionSpec:
    (spec,) = answer_stage.values()
    assert isinstance(spec, AttentionSpec)
    return spec


def test_layers_without_a_cache_config_ignore_the_kv_dtype() -> None:
    spec = only(dict(plan(layer(0, ignores_cache_config=True), cache_dtype="fp8").stages[0]))
    assert (spec.dtype, spec.kv_quant_mode) == (DType.BFLOAT16, KVQuantMode.NONE)


def test_a_models_own_cache_keeps_its_block_and_dtype() -> None:
    own = OwnCache(backend="INKLING_SCONV_SWA", block_size=4, model_dtype=True)
    conv = sliding(0, 4, head_size=2048, head_size_v=0, num_kv_heads=8, own_cache=own)
    answer = plan(conv, cache_dtype="fp8")
    spec = only(dict(answer.stages[0]))
    assert (spec.block_size, spec.dtype, spec.page_size_bytes) == (4, DType.BFLOAT16, 131072)
    assert dict(answer.backends[0]) == {"INKLING_SCONV_SWA": 1}
