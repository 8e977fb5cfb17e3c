"""Recurrent states: prefix caching, modes, block sizes and element types."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from tests.settings.builders import llama, refusal, refused_in, resolved

HYBRID = ArchitectureTraits(architecture="JambaForCausalLM", is_hybrid=True)
STATES_ONLY = ArchitectureTraits(architecture="MambaForCausalLM", is_attention_free=True)


@pytest.mark.parametrize(
    ("flags", "cached", "mode", "size"),
    [
        ({}, False, "none", 131072),
        ({"enable_prefix_caching": True}, True, "align", 16),
        ({"enable_prefix_caching": True, "block_size": 32}, True, "align", 32),
        ({"mamba_cache_mode": "all"}, False, "none", 131072),
    ],
)
def test_states_alone_are_cached_on_demand(
    flags: dict[str, Any], cached: bool, mode: str, size: int
) -> None:
    settings = resolved(traits=STATES_ONLY, **flags)
    assert not settings.is_hybrid
    assert settings.enable_prefix_caching is cached
    assert (settings.mamba_cache_mode, settings.mamba_block_size) == (mode, size)


def test_a_pooling_model_of_states_caches() -> None:
    traits = ArchitectureTraits(
        architecture="MambaForCausalLM", is_attention_free=True, runner_type=RunnerType.POOLING
    )
    assert resolved(traits=traits).enable_prefix_caching


def test_states_alone_have_no_heads_to_share_out() -> None:
    settings = resolved(llama(num_attention_heads=...), traits=STATES_ONLY, tensor_parallel_size=2)
    assert settings.tensor_parallel_size == 2


def test_states_are_cached_at_the_ends_of_chunks() -> None:
    message = refused_in(traits=HYBRID, enable_chunked_prefill=False)
    assert message == "Chunked prefill is required for Mamba prefix caching."
    settings = resolved(
        traits=HYBRID,
        enable_chunked_prefill=False,
        enable_prefix_caching=False,
        max_num_batched_tokens=131072,
    )
    assert settings.mamba_cache_mode == "none"


@pytest.mark.parametrize(
    ("architecture", "config", "flag", "dtype"),
    [
        ("JambaForCausalLM", {"mamba_ssm_cache_dtype": "float32"}, None, "auto"),
        ("JambaForCausalLM", {}, "float32", "float32"),
        ("NemotronHForCausalLM", {}, None, "float32"),
        ("NemotronHForCausalLM", {"mamba_ssm_cache_dtype": "bfloat16"}, "auto", "bfloat16"),
        ("NemotronHForCausalLM", {"mamba_ssm_cache_dtype": "bfloat16"}, "float16", "float16"),
        ("Qwen3_5ForCausalLM", {}, None, "auto"),
        ("Qwen3_5ForCausalLM", {"mamba_ssm_dtype": "float32"}, None, "float32"),
        ("Qwen3_5ForCausalLM", {"mamba_ssm_dtype": "float32"}, "bfloat16", "bfloat16"),
        ("Qwen3NextForCausalLM", {"mamba_ssm_dtype": "float32"}, None, "auto"),
    ],
)
def test_the_states_type(
    architecture: str, config: dict[str, Any], flag: str | None, dtype: str
) -> None:
    traits = ArchitectureTraits(architecture=architecture, is_hybrid=True)
    settings = resolved(llama(**config), traits=traits, mamba_ssm_cache_dtype=flag)
    assert settings.mamba_ssm_cache_dtype == dtype
    assert settings.mamba_cache_dtype == "auto"


def test_an_unknown_type_in_the_config() -> None:
    traits = ArchitectureTraits(architecture="Qwen3_5ForCausalLM", is_hybrid=True)
    with pytest.raises(InputError, match="mamba_ssm_dtype"):
        resolved(llama(mamba_ssm_dtype="int7"), traits=traits)


def test_the_window_has_a_type_of_its_own() -> None:
    assert resolved(traits=HYBRID, mamba_cache_dtype="float16").mamba_cache_dtype == "float16"


@pytest.mark.parametrize("cache_dtype", ["turboquant_4bit_nc", "ultraquant_4bit"])
def test_packed_caches_need_layers_that_the_config_calls_attention(cache_dtype: str) -> None:
    kimi = ArchitectureTraits(architecture="KimiLinearForCausalLM", is_hybrid=True)
    error = refusal(llama(model_type="kimi_linear"), traits=kimi, kv_cache_dtype=cache_dtype)
    assert error.error_type == "NotImplementedError"
    assert "requires identifiable full-attention layers" in error.message
    assert resolved(traits=HYBRID, kv_cache_dtype=cache_dtype).cache_dtype == cache_dtype
