"""What single architectures change of their settings."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.registry import find_architecture
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from kvplan_cli.settings.model_hooks import (
    check_pooling,
    hooked_backend,
    hooked_max_model_len,
    hooked_prefix_caching,
    is_causal,
)
from kvplan_cli.settings.runner import supports_partial_prefill

A100 = Gpu(name="NVIDIA A100-SXM4-80GB", capability=(8, 0), total_memory_bytes=80 << 30)
H100 = Gpu(name="NVIDIA H100 80GB HBM3", capability=(9, 0), total_memory_bytes=80 << 30)
GEMMA4 = HfConfig(
    {
        "architectures": ["Gemma4ForCausalLM"],
        "model_type": "gemma4_text",
        "hidden_size": 1024,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 512,
    }
)


@pytest.mark.parametrize(
    ("gpu", "asked", "expected"),
    [
        (A100, None, "TRITON_ATTN"),
        (A100, "FLASHINFER", "FLASHINFER"),
        (H100, None, None),
    ],
)
def test_gemma4_takes_triton_where_flash_attention_4_is_missing(
    gpu: Gpu, asked: str | None, expected: str | None
) -> None:
    assert hooked_backend("Gemma4ForCausalLM", GEMMA4, gpu, asked) == expected


def test_unlimited_ocr_needs_a_reference_window() -> None:
    name, config = "UnlimitedOCRForCausalLM", HfConfig({})
    assert hooked_backend(name, config, H100, None) == "FLASH_ATTN"
    assert hooked_backend(name, config, A100, None) == "TRITON_ATTN"
    with pytest.raises(EngineRefusalError) as caught:
        hooked_backend(name, config, A100, "FLASH_ATTN")
    assert caught.value.error_type == "RuntimeError"
    with pytest.raises(EngineRefusalError, match=r"<AttentionBackendEnum\.FLASHINFER: 'vllm"):
        hooked_backend(name, config, H100, "FLASHINFER")
    assert not hooked_prefix_caching(name, True)
    assert hooked_prefix_caching("LlamaForCausalLM", True)


@pytest.mark.parametrize(("asked", "length"), [(None, 8192), (-1, 8192), (100_000, 262_144)])
def test_embedding_gemma2_starts_short(asked: int | None, length: int) -> None:
    assert hooked_max_model_len("EmbeddingGemma2Model", 262_144, asked) == length


@pytest.mark.parametrize(
    ("architecture", "keys", "expected"),
    [
        ("LlamaBidirectionalModel", {}, False),
        ("JinaEmbeddingsV5Model", {"is_decoder": False}, False),
        ("JinaEmbeddingsV5Model", {}, True),
        ("LlamaForCausalLM", {"is_causal": False}, False),
    ],
)
def test_encoders_made_of_decoders(architecture: str, keys: dict[str, Any], expected: bool) -> None:
    assert is_causal(architecture, HfConfig(keys)) is expected


@pytest.mark.parametrize(
    "traits",
    [
        ArchitectureTraits(architecture="BertForTokenClassification", attn_type="encoder_only"),
        ArchitectureTraits(architecture="BertModel", default_seq_pooling_type="CLS"),
        ArchitectureTraits(
            architecture="Qwen2ForProcessRewardModel", default_tok_pooling_type="STEP"
        ),
    ],
)
def test_pooling_over_whole_sequences_splits_no_prompt(traits: ArchitectureTraits) -> None:
    assert not supports_partial_prefill(traits, RunnerType.POOLING, HfConfig({}), {})


@pytest.mark.parametrize(
    ("keys", "words"),
    [({}, "requires a 'pooling' field"), ({"pooling": "max"}, "pool_type 'max' not supported")],
)
def test_a_bidirectional_llama_says_how_it_pools(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineRefusalError, match=words):
        check_pooling("LlamaBidirectionalModel", HfConfig(keys))
    check_pooling("LlamaBidirectionalModel", HfConfig({"pooling": "avg"}))
    check_pooling("LlamaModel", HfConfig(keys))


def test_process_rewards_come_step_by_step() -> None:
    config = HfConfig({"architectures": ["Qwen2ForProcessRewardModel"]})
    assert find_architecture(config).default_tok_pooling_type == "STEP"
