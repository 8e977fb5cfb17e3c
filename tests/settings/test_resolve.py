"""The settings as a whole: bounds of flags, hooks of architectures, order of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.models.shape import ArchitectureTraits
from tests.settings.builders import llama, refusal, refused_in, resolved

DIFFUSION = ArchitectureTraits(architecture="DiffusionGemmaForBlockDiffusion", supports_pp=False)
HYBRID = ArchitectureTraits(architecture="JambaForCausalLM", is_hybrid=True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"gpu_memory_utilization": 1.5}, "Input should be less than or equal to 1"),
        ({"gpu_memory_utilization": 0.0}, "Input should be greater than 0"),
        ({"gpu_memory_utilization": -0.5}, "Input should be greater than 0"),
        ({"block_size": 0}, "Input should be greater than 0"),
        ({"block_size": -16}, "Input should be greater than 0"),
        ({"mamba_block_size": 0}, "Input should be greater than 0"),
        (
            {"mamba_ssm_cache_dtype": "x"},
            "Input should be 'auto', 'float32', 'float16' or 'bfloat16'",
        ),
    ],
)
def test_bounds_of_flags(flags: dict[str, Any], message: str) -> None:
    (field,) = flags
    assert refused_in(**flags) == f"{field}: {message}"


@pytest.mark.parametrize(
    "flags",
    [
        {"gpu_memory_utilization": 1.0},
        {"block_size": 17},
        {"num_gpu_blocks_override": 0},
        {"kv_cache_memory_bytes": 0},
        {"enforce_eager": True},
        {"data_parallel_size": 2},
    ],
)
def test_values_that_the_engine_takes(flags: dict[str, Any]) -> None:
    assert resolved(**flags).max_model_len == 131072


def test_block_size_before_backends_have_a_word() -> None:
    assert (resolved().block_size, resolved().cache_block_size) == (None, 16)
    given = resolved(block_size=32)
    assert (given.block_size, given.cache_block_size) == (32, 32)


@pytest.mark.parametrize(
    ("flag", "name"),
    [(None, None), ("auto", None), ("flash_attn", "FLASH_ATTN"), ("FLASHINFER", "FLASHINFER")],
)
def test_attention_backends(flag: str | None, name: str | None) -> None:
    assert resolved(attention_backend=flag).attention_backend == name


def test_an_unknown_attention_backend() -> None:
    error = refusal(attention_backend="nope")
    assert error.error_type == "ValueError"
    assert error.message.startswith(
        "Unknown attention backend: 'NOPE'. Valid options are: FLASH_ATTN, FLASH_ATTN_DIFFKV, "
    )
    assert error.message.endswith(", ULTRAQUANT, CUSTOM")


@pytest.mark.parametrize(("asked", "seqs"), [(None, 8), (4, 4), (100, 100), (200, 8)])
def test_block_diffusion(asked: int | None, seqs: int) -> None:
    config = llama(canvas_length=256)
    settings = resolved(config, traits=DIFFUSION, max_num_seqs=asked)
    assert settings.max_num_seqs == seqs
    assert settings.num_speculative_tokens == 256
    assert settings.max_num_batched_tokens == 8192


def test_block_diffusion_refusals() -> None:
    with pytest.raises(MissingFieldError, match="canvas_length"):
        resolved(traits=DIFFUSION)
    message = refused_in(llama(canvas_length=256), traits=DIFFUSION, attention_backend="FLASHINFER")
    assert message == (
        "FlashInfer does not support DiffusionGemma's mixed causal/bidirectional attention. Use "
        "--attention-backend FLASH_ATTN or TRITON_ATTN instead."
    )


@pytest.mark.parametrize(
    ("flags", "mode", "size"),
    [
        ({}, "align", 16),
        ({"block_size": 64}, "align", 64),
        ({"mamba_block_size": 128}, "align", 128),
        ({"enable_prefix_caching": False}, "none", 131072),
        ({"enable_prefix_caching": False, "mamba_cache_mode": "align"}, "none", 131072),
    ],
)
def test_states_beside_attention(flags: dict[str, Any], mode: str, size: int) -> None:
    settings = resolved(traits=HYBRID, **flags)
    assert settings.is_hybrid
    assert (settings.mamba_cache_mode, settings.mamba_block_size) == (mode, size)


def test_a_state_block_without_prefix_caching() -> None:
    assert refused_in(mamba_block_size=32, enable_prefix_caching=False) == (
        "--mamba-block-size can only be set with --enable-prefix-caching"
    )


def test_the_first_rule_that_fails_speaks() -> None:
    flags: dict[str, Any] = {"max_model_len": 10**8, "kv_cache_dtype": "x", "block_size": 0}
    assert "max_model_len" in refused_in(tensor_parallel_size=3, **flags)
    del flags["max_model_len"]
    assert "block_size" in refused_in(tensor_parallel_size=3, **flags)
    del flags["block_size"]
    assert "kv_cache_dtype" in refused_in(tensor_parallel_size=3, **flags)
    assert "attention heads" in refused_in(tensor_parallel_size=3)
