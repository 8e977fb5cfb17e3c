"""What the engine refuses while it builds the model, word for word (vLLM 0.33.0)."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.shape import OwnCache
from tests.backends.builders import layer, plan, sliding


def refused(*layers: Any, **changes: Any) -> tuple[str, str]:
    with pytest.raises(EngineRefusalError) as caught:
        plan(*layers, **changes)
    assert caught.value.stage == "model_error"
    return caught.value.error_type, caught.value.message


def test_no_valid_backend_names_the_request_and_every_reason() -> None:
    gpt_oss = sliding(2, 128, head_size=64, has_sink=True)
    layers = (layer(0, head_size=64), layer(1, head_size=64), gpt_oss, *map(layer, range(3, 6)))
    assert refused(*layers, cache_dtype="turboquant_k8v4") == (
        "ValueError",
        "No valid attention backend found for cuda with AttentionSelectorConfig(head_size=64, "
        "dtype=torch.bfloat16, kv_cache_dtype=turboquant_k8v4, block_size=None, use_mla=False, "
        "has_sink=True, use_sparse=False, use_mm_prefix=False, use_per_head_quant_scales=False, "
        "attn_type=AttentionType.DECODER, has_sliding_window=True, use_non_causal=False, "
        "use_batch_invariant=False, use_kv_connector=False, use_adaptive_verification=False, "
        "use_pcp=False, use_dcp=False, use_rswa=False). Reasons: {FLASH_ATTN: [kv_cache_dtype "
        "not supported, attention sinks not supported, FP8 KV cache requires FA3 on SM90, FA4 "
        "with head_size=512 on SM90, or FA4 on SM100], FLASHINFER: [kv_cache_dtype not "
        "supported], TRITON_ATTN: [kv_cache_dtype not supported], FLEX_ATTENTION: "
        "[kv_cache_dtype not supported, attention sinks not supported], TURBOQUANT: [attention "
        "sinks not supported, sliding window not supported]}.",
    )


def test_a_block_size_that_no_kernel_takes() -> None:
    error_type, message = refused(layer(), block_size=8)
    assert error_type == "ValueError"
    assert "block_size=8, use_mla=False" in message
    assert "FLASH_ATTN: [block_size not supported], FLASHINFER: [block_size not supported]" in (
        message
    )


@pytest.mark.parametrize(
    ("backend", "layers", "reasons"),
    [
        (
            "FLEX_ATTENTION",
            (layer(head_size=64, has_sink=True),),
            ["attention sinks not supported"],
        ),
        ("FLASHINFER", (layer(head_size=80),), ["head_size not supported"]),
        ("TURBOQUANT", (layer(),), ["kv_cache_dtype not supported"]),
        (
            "TRITON_FLASHINFER",
            (layer(head_size=64),),
            ["head_size not supported", "compute capability not supported"],
        ),
    ],
)
def test_the_users_backend_is_not_valid(backend: str, layers: Any, reasons: list[str]) -> None:
    assert refused(*layers, attention_backend=backend) == (
        "ValueError",
        f"Selected backend AttentionBackendEnum.{backend} is not valid for this configuration. "
        f"Reason: {reasons}",
    )


def test_fp8_before_ada_with_triton() -> None:
    prefix = layer(head_size=256, mm_prefix=True)
    assert refused(prefix, card="A100", cache_dtype="fp8") == (
        "ValueError",
        "FP8 KV cache is not supported by the Triton attention backend on NVIDIA "
        "A100-SXM4-80GB (compute capability 8.0); native FP8 (fp8e4nv) requires SM89+. Re-run "
        "with --kv-cache-dtype bfloat16.",
    )


@pytest.mark.parametrize(
    ("card", "built"),
    [("H100", layer(alibi=True)), ("B200", layer(head_size=192, head_size_v=128))],
)
def test_flash_attention_finds_out_late_that_it_cannot_read_fp8(card: str, built: Any) -> None:
    assert refused(built, card=card, cache_dtype="fp8") == (
        "NotImplementedError",
        "FlashAttention does not support fp8 kv-cache on this device.",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alibi": True}, "FlexAttention does not support alibi slopes yet."),
        ({"logits_soft_cap": True}, "FlexAttention does not support logits soft cap yet."),
    ],
)
def test_flex_attention(changes: dict[str, Any], words: str) -> None:
    built = layer(**changes)
    assert refused(built, attention_backend="FLEX_ATTENTION") == ("NotImplementedError", words)


def test_fp8_e5m2_with_a_checkpoint_that_holds_scales() -> None:
    assert refused(layer(), cache_dtype="fp8_e5m2", quantization="fp8") == (
        "ValueError",
        "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
    )


def test_a_mixed_checkpoint_may_say_beside_its_config_that_it_holds_scales() -> None:
    mixed: dict[str, Any] = {"quantization": "modelopt_mixed", "cache_dtype": "fp8_e5m2"}
    beside = {"hf_quant_config.json": {"quantization": {"kv_cache_quant_algo": "FP8"}}}
    message = "fp8_e5m2 kv-cache is not supported with fp8 checkpoints."
    assert refused(layer(), extra_files=beside, **mixed) == ("ValueError", message)
    assert plan(layer(), **mixed).stages


def test_a_vocabulary_that_cannot_be_shared_out() -> None:
    ten_heads = layer(num_attention_heads=40, num_kv_heads=10)
    assert refused(ten_heads, tensor_parallel_size=10, config={"vocab_size": 100352}) == (
        "AssertionError",
        "100352 is not divisible by 10",
    )


@pytest.mark.parametrize(
    ("architecture", "tensor_parallel_size", "words"),
    [
        ("LlamaForCausalLM", 4, ""),
        ("Starcoder2ForCausalLM", 4, "10 is not divisible by 4"),
        ("Starcoder2ForCausalLM", 16, "16 is not divisible by 10"),
    ],
)
def test_kv_heads_that_cannot_be_shared_out(
    architecture: str, tensor_parallel_size: int, words: str
) -> None:
    heads = layer(num_attention_heads=80, num_kv_heads=10)
    answer = refused(heads, architecture=architecture, tensor_parallel_size=tensor_parallel_size)
    assert answer == ("AssertionError", words)


def test_a_cache_shared_across_pipeline_stages() -> None:
    target = "model.layers.0.self_attn.attn"
    layers = (layer(0), layer(1, kv_sharing_target=target))
    assert refused(*layers, pipeline_parallel_size=2) == (
        "ValueError",
        "Specified KV sharing target layer for model.layers.1.self_attn.attn is not valid: "
        f"target layer {target} is not a valid Attention layer in the model.",
    )


@pytest.mark.parametrize(
    ("architecture", "vision", "words"),
    [
        ("Glm4vForConditionalGeneration", {"num_heads": 12}, "12 is not divisible by 8"),
        ("Llama4ForConditionalGeneration", {"hidden_size": 1404}, "1404 is not divisible by 8"),
        ("SmolVLMForConditionalGeneration", {"num_attention_heads": 12}, ""),
    ],
)
def test_a_tower_that_cannot_be_shared_out(
    architecture: str, vision: dict[str, int], words: str
) -> None:
    config = {"vision_config": vision, "text_config": {"vocab_size": 32000}}
    answer = refused(layer(), architecture=architecture, config=config, tensor_parallel_size=8)
    assert answer == ("AssertionError", words)


def test_a_tower_is_built_for_text_alone_too() -> None:
    config = {"vision_config": {"num_heads": 12}, "text_config": {"vocab_size": 32000}}
    answer = refused(
        layer(),
        architecture="Glm4vForConditionalGeneration",
        config=config,
        tensor_parallel_size=8,
        args=EngineArgs(language_model_only=True),
    )
    assert answer == ("AssertionError", "12 is not divisible by 8")


def test_inklings_states_need_a_head_a_rank() -> None:
    own = OwnCache(backend="INKLING_SCONV_SWA", block_size=4, model_dtype=True)
    conv = sliding(0, 4, num_attention_heads=64, num_kv_heads=8, own_cache=own)
    assert refused(conv, tensor_parallel_size=32) == (
        "AssertionError",
        "sconv SWA cache supports tp_size <= num_kv_heads (8), got 32",
    )
