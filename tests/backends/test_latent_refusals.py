"""What the engine refuses of latent layers, in its own words."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.shape import CompressedPart
from tests.backends.builders import plan
from tests.backends.latent import compressed, dense, index_keys, sparse


def refusal(*layers: Any, **changes: Any) -> EngineRefusalError:
    with pytest.raises(EngineRefusalError) as caught:
        plan(*layers, **changes)
    assert caught.value.stage == "model_error"
    return caught.value


def test_every_backend_gives_its_reasons() -> None:
    error = refusal(sparse(), card="A100")
    assert error.error_type == "ValueError"
    assert error.message.startswith(
        "No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576, "
    )
    assert error.message.endswith(
        "Reasons: {FLASH_ATTN_MLA: [sparse not supported, compute capability not supported, "
        "FlashAttention MLA not supported on this device], FLASHMLA: [sparse not supported, "
        "compute capability not supported, FlashMLA Sparse is only supported on Hopper and "
        "Blackwell DC devices.], FLASHINFER_MLA: [sparse not supported, compute capability not "
        "supported], TRITON_MLA: [sparse not supported], FLASH_ATTN_MLA_SPARSE: [compute "
        "capability not supported, FlashAttention MLA not supported on this device], "
        "FLASHMLA_SPARSE: [compute capability not supported], FLASHINFER_MLA_SPARSE_SM90: "
        "[compute capability not supported]}."
    )


def test_a_selected_backend_must_read_the_cache() -> None:
    error = refusal(dense(), attention_backend="FLASH_ATTN_MLA", cache_dtype="fp8")
    assert error.message == (
        "Selected backend AttentionBackendEnum.FLASH_ATTN_MLA is not valid for this "
        "configuration. Reason: ['kv_cache_dtype not supported']"
    )


def test_plain_and_latent_backends_do_not_mix() -> None:
    error = refusal(dense(), attention_backend="FLASH_ATTN")
    assert "'MLA not supported'" in error.message


def test_fp8_before_ada() -> None:
    error = refusal(dense(), card="A100", cache_dtype="fp8")
    assert "FP8 KV cache is not supported by the Triton MLA backend" in error.message


def test_context_parallel_needs_packed_vectors() -> None:
    shared: dict[str, Any] = {"tensor_parallel_size": 8, "decode_context_parallel_size": 8}
    error = refusal(index_keys(), sparse(), **shared)
    assert error.error_type == "NotImplementedError"
    assert error.message.startswith("DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache;")
    answer = plan(index_keys(), sparse(), cache_dtype="fp8_ds_mla", **shared)
    assert "FLASHMLA_SPARSE" in answer.backends[0]


def test_head_sizes_without_prefill_kernels() -> None:
    error = refusal(dense(qk_nope_head_dim=96, v_head_dim=96))
    assert error.message == (
        "No valid MLA prefill backend found with MLAPrefillSelectorConfig(dtype=torch.bfloat16, "
        "mla_dimensions=(qk_nope_head_dim=96, qk_rope_head_dim=64, v_head_dim=96)). Reasons: "
        "{FLASH_ATTN: [Model does not have supported MLA dimensions (got (qk_nope_head_dim=96, "
        "qk_rope_head_dim=64, v_head_dim=96))]}."
    )


def test_windows_are_for_backends_that_models_name() -> None:
    error = refusal(dense(sliding_window=512))
    assert error.message.startswith("FlashAttnMLAImpl does not support one of the following:")


def test_padded_rows_are_not_quantized() -> None:
    padded = sparse(backend="DOTS3_NOTE_PADDED_MLA_SPARSE", stored_head_size=1088)
    error = refusal(padded, cache_dtype="fp8")
    assert error.message == "FlashAttnMLASparseImpl currently supports only FP16/BF16 KV cache."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attention_backend": "FLASHINFER_MLA_SPARSE"}, "is not a DeepSeek V4 attention backend"),
        ({"cache_dtype": "bfloat16"}, "layout only supports fp8 kv-cache, got bfloat16"),
    ],
)
def test_compressed_layers(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(compressed(CompressedPart.VECTORS), **changes).message


def test_too_many_heads_for_a_rank() -> None:
    error = refusal(compressed(CompressedPart.VECTORS, num_attention_heads=256))
    assert error.message.startswith("DeepseekV4 FlashMLA does not support 256 heads")


def test_single_precision() -> None:
    assert "dtype not supported" in refusal(dense(), dtype=DType.FLOAT32).message
