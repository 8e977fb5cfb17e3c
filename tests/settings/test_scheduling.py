"""Runner, asynchronous scheduling, steps in flight, hybrid cache manager."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.models.shape import ArchitectureTraits
from tests.settings.builders import POOLS, llama, refused_in, resolved

V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
LOCAL = {"VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "0"}


@pytest.mark.parametrize(
    ("env", "flags", "is_async", "batches"),
    [
        ({}, {}, True, 2),
        (V2, {}, True, 2),
        ({}, {"pipeline_parallel_size": 2}, True, 3),
        ({}, {"pipeline_parallel_size": 4, "async_scheduling": True}, True, 5),
        ({}, {"async_scheduling": False}, False, 1),
        ({}, {"pipeline_parallel_size": 4, "async_scheduling": False}, False, 4),
        ({}, {"runner": "pooling"}, False, 1),
        ({}, {"runner": "pooling", "async_scheduling": True}, True, 2),
        (V1, {}, True, 2),
        (V1, {"pipeline_parallel_size": 2}, False, 2),
        (V1, {"async_scheduling": False}, False, 1),
    ],
)
def test_steps_in_flight(
    env: dict[str, str], flags: dict[str, Any], is_async: bool, batches: int
) -> None:
    settings = resolved(env=env, **flags)
    assert settings.use_v2_model_runner is (env != V1)
    assert settings.async_scheduling is is_async
    assert settings.max_concurrent_batches == batches
    assert settings.max_in_flight_tokens == batches * 8192


def test_models_that_pool_by_default() -> None:
    assert not resolved(traits=POOLS).async_scheduling


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"pipeline_parallel_size": 2, "async_scheduling": True},
            "Async scheduling is not supported by the V1 model runner with pipeline parallelism.",
        ),
        (
            {"prefill_context_parallel_size": 2},
            "Model Runner V1 does not support: prefill context parallel",
        ),
    ],
)
def test_what_the_older_runner_cannot(flags: dict[str, Any], message: str) -> None:
    assert refused_in(env=V1, **flags) == message


def test_the_older_runner_cannot_diffuse() -> None:
    message = refused_in(llama(canvas_length=256), env=V1)
    assert message == "Model Runner V1 does not support: diffusion models"


@pytest.mark.parametrize("value", ["yes", ""])
def test_a_switch_that_is_no_number(value: str) -> None:
    with pytest.raises(InputError, match="VLLM_USE_V2_MODEL_RUNNER"):
        resolved(env={"VLLM_USE_V2_MODEL_RUNNER": value})


@pytest.mark.parametrize(
    ("config", "env", "flag", "disabled"),
    [
        ({}, {}, None, False),
        ({}, {}, True, True),
        ({}, {}, False, False),
        ({"attention_chunk_size": 8192}, {}, None, False),
        ({"attention_chunk_size": 8192}, LOCAL, None, True),
        ({"attention_chunk_size": 8192}, LOCAL, True, True),
        ({"attention_chunk_size": 128, "model_type": "mimo_v2_flash"}, LOCAL, None, False),
        ({}, LOCAL, None, False),
    ],
)
def test_hybrid_cache_manager(
    config: dict[str, Any], env: dict[str, str], flag: bool | None, disabled: bool
) -> None:
    settings = resolved(llama(**config), env=env, disable_hybrid_kv_cache_manager=flag)
    assert settings.disable_hybrid_kv_cache_manager is disabled


def test_a_hybrid_cache_manager_that_may_not_be() -> None:
    chunked = llama(attention_chunk_size=8192)
    message = refused_in(chunked, env=LOCAL, disable_hybrid_kv_cache_manager=False)
    assert message == (
        "Hybrid KV cache manager was explicitly enabled but is not supported in this "
        "configuration. Consider omitting the --enable-hybrid-kv-cache-manager flag to let vLLM "
        "decide automatically."
    )


def test_a_decoder_with_an_encoder_is_not_pooled() -> None:
    traits = ArchitectureTraits(architecture="Whisper", is_encoder_decoder=True)
    settings = resolved(traits=traits)
    assert settings.async_scheduling
