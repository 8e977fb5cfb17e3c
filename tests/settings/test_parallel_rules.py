"""Tensor, pipeline, context and expert parallelism: what the engine allows."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.models.shape import ArchitectureTraits
from kvplan_cli.settings.heads import total_kv_heads
from tests.settings.builders import llama, refusal, refused_in, resolved

NO_PP = ArchitectureTraits(architecture="Gemma3nForCausalLM", supports_pp=False)
MLA = ArchitectureTraits(architecture="DeepseekV3ForCausalLM", use_mla=True)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32, 64])
def test_sizes_that_divide_the_heads(size: int) -> None:
    assert resolved(tensor_parallel_size=size).tensor_parallel_size == size


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "gpt2", "num_attention_heads": ..., "n_head": 64},
        {"model_type": "dbrx", "num_attention_heads": ..., "n_heads": 64},
    ],
)
def test_sizes_that_do_not(config: dict[str, Any]) -> None:
    error = refusal(llama(**config), tensor_parallel_size=3)
    assert error.message == (
        "Total number of attention heads (64) must be divisible by tensor parallel size (3)."
    )
    assert error.problems[0].way_out == "sizes that divide it: 1, 2, 4, 8, 16, 32, 64"


def test_heads_are_asked_for_only_where_they_are_divided() -> None:
    config = llama(num_attention_heads=...)
    assert resolved(config).tensor_parallel_size == 1
    with pytest.raises(MissingFieldError):
        resolved(config, tensor_parallel_size=2)


@pytest.mark.parametrize(
    "field",
    [
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "prefill_context_parallel_size",
        "decode_context_parallel_size",
        "data_parallel_size",
    ],
)
def test_sizes_below_one(field: str) -> None:
    flags: dict[str, Any] = {field: 0}
    assert refused_in(**flags) == f"{field}: Input should be greater than or equal to 1"


def test_pipeline_stages_need_support() -> None:
    assert resolved(pipeline_parallel_size=2).pipeline_parallel_size == 2
    error = refusal(traits=NO_PP, pipeline_parallel_size=2)
    assert (error.error_type, error.message) == (
        "NotImplementedError",
        "Pipeline parallelism is not supported for this model. Supported models implement the "
        "`SupportsPP` interface.",
    )


@pytest.mark.parametrize(
    ("tp", "pcp", "dcp"), [(16, 1, 2), (32, 1, 4), (16, 2, 2), (2, 2, 1), (64, 1, 8)]
)
def test_context_parallelism_that_fits(tp: int, pcp: int, dcp: int) -> None:
    settings = resolved(
        tensor_parallel_size=tp,
        prefill_context_parallel_size=pcp,
        decode_context_parallel_size=dcp,
    )
    assert settings.prefill_context_parallel_size == pcp
    assert settings.decode_context_parallel_size == dcp


@pytest.mark.parametrize(
    ("tp", "pcp", "dcp", "message"),
    [
        (4, 1, 3, "tp_size=4 must be divisible by dcp_size=3."),
        (
            2,
            2,
            8,
            "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x "
            "PCP axis. Got TP=2, PCP=2, DCP=8; valid DCP sizes are [1, 2, 4].",
        ),
        (
            8,
            1,
            2,
            "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (8) to be "
            "greater than the model's total number of KV heads (8). Increase "
            "`--tensor-parallel-size` or set `--decode-context-parallel-size 1`.",
        ),
        (
            16,
            1,
            4,
            "`--decode-context-parallel-size` (4) exceeds the maximum supported value (2) for "
            "`--tensor-parallel-size` (16) and 8 model KV heads.",
        ),
    ],
)
def test_context_parallelism_that_does_not(tp: int, pcp: int, dcp: int, message: str) -> None:
    assert message == refused_in(
        tensor_parallel_size=tp,
        prefill_context_parallel_size=pcp,
        decode_context_parallel_size=dcp,
    )


def test_queries_of_a_kv_head_are_shared_out_evenly() -> None:
    config = llama(num_attention_heads=48, num_key_value_heads=4)
    message = refused_in(config, tensor_parallel_size=48, decode_context_parallel_size=8)
    assert message == (
        "The model's number of query heads per KV head (12) must be divisible by "
        "`--decode-context-parallel-size` (8) for GQA/MQA."
    )


def test_mla_has_no_kv_heads_to_count() -> None:
    latent = llama(model_type="deepseek_v3")
    settings = resolved(latent, traits=MLA, tensor_parallel_size=8, decode_context_parallel_size=8)
    assert settings.decode_context_parallel_size == 8


@pytest.mark.parametrize(
    ("config", "kv_heads"),
    [
        ({"num_key_value_heads": None}, 64),
        ({"num_key_value_heads": ..., "num_kv_heads": 4}, 4),
        ({"num_key_value_heads": ..., "multi_query_group_num": 2}, 2),
        ({"model_type": "dbrx", "attn_config": {"kv_n_heads": 16}}, 16),
        ({"model_type": "falcon", "multi_query": True}, 1),
        ({"model_type": "falcon", "multi_query": False, "num_kv_heads": 32}, 32),
        ({"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 8}, 8),
    ],
)
def test_where_kv_heads_stand(config: dict[str, Any], kv_heads: int) -> None:
    part = llama(**config)
    assert total_kv_heads(part, part) == kv_heads


def test_falcons_class_says_whether_it_has_one_kv_head() -> None:
    falcon = llama(model_type="falcon")
    with pytest.raises(MissingFieldError, match="multi_query"):
        total_kv_heads(falcon, falcon)


@pytest.mark.parametrize(
    "config",
    [
        {"num_local_experts": 8},
        {"n_routed_experts": 256},
        {"moe_num_experts": [64, 64]},
        {"model_type": "mixtral"},
    ],
)
def test_experts_may_be_shared_out(config: dict[str, Any]) -> None:
    assert resolved(llama(**config), enable_expert_parallel=True).enable_expert_parallel


@pytest.mark.parametrize("config", [{}, {"num_experts": 0}])
def test_a_dense_model_has_none(config: dict[str, Any]) -> None:
    assert refused_in(llama(**config), enable_expert_parallel=True) == (
        "Number of experts in the model must be greater than 0 when expert parallelism is enabled."
    )
