"""What a backend makes of a layer's spec: content, slots, strides (values of vLLM 0.33.0)."""

from __future__ import annotations

import pytest

from kvplan_cli.backends.quant_modes import cache_elements, is_quantized, kv_quant_mode
from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.errors import InputError
from kvplan_cli.specs import AttentionSpec, FullAttentionSpec, MultipleOf
from tests.backends.builders import layer, plan


def spec_of(head_size: int, cache_dtype: str, *, card: str = "H100") -> AttentionSpec:
    """The spec of a middle layer: packed caches leave both ends of the model plain."""
    layers = [layer(index, head_size=head_size) for index in range(6)]
    spec = plan(*layers, card=card, cache_dtype=cache_dtype).stages[0][layers[2].name]
    assert isinstance(spec, FullAttentionSpec)
    return spec


@pytest.mark.parametrize(
    ("head_size", "cache_dtype", "content", "slots"),
    [
        (128, "auto", None, None),
        (128, "fp8", None, None),
        (128, "int4_per_token_head", 136, None),
        (64, "int4_per_token_head", 72, None),
        (128, "int8_per_token_head", 264, None),
        (128, "fp8_per_token_head", 264, None),
        (128, "nvfp4", 72, 8),
        (256, "nvfp4", 144, 8),
        (128, "turboquant_k8v4", 196, None),
        (128, "turboquant_4bit_nc", 134, None),
        (128, "turboquant_k3v4_nc", 118, None),
        (128, "turboquant_3bit_nc", 102, None),
        (96, "turboquant_3bit_nc", 78, None),
    ],
)
def test_content(head_size: int, cache_dtype: str, content: int | None, slots: int | None) -> None:
    spec = spec_of(head_size, cache_dtype)
    assert (spec.state_content_bytes, spec.num_head_slots) == (content, slots)


@pytest.mark.parametrize(
    ("card", "cache_dtype", "alignment"),
    [
        ("H100", "auto", None),
        ("H100", "int4_per_token_head", None),
        ("H100", "nvfp4", MultipleOf(64)),
        ("H100", "turboquant_4bit_nc", MultipleOf(128)),
        ("B200", "auto", MultipleOf(64)),
    ],
)
def test_fixed_kernel_blocks_must_stay_whole(
    card: str, cache_dtype: str, alignment: MultipleOf | None
) -> None:
    assert spec_of(128, cache_dtype, card=card).block_stride_alignment == alignment


@pytest.mark.parametrize(
    ("cache_dtype", "mode", "elements"),
    [
        ("auto", KVQuantMode.NONE, DType.BFLOAT16),
        ("float16", KVQuantMode.NONE, DType.FLOAT16),
        ("bfloat16", KVQuantMode.NONE, DType.BFLOAT16),
        ("fp8", KVQuantMode.FP8_PER_TENSOR, DType.UINT8),
        ("fp8_e5m2", KVQuantMode.FP8_PER_TENSOR, DType.UINT8),
        ("fp8_inc", KVQuantMode.FP8_PER_TENSOR, DType.FLOAT8_E4M3FN),
        ("fp8_per_token_head", KVQuantMode.FP8_PER_TOKEN_HEAD, DType.UINT8),
        ("int8_per_token_head", KVQuantMode.INT8_PER_TOKEN_HEAD, DType.INT8),
        ("int4_per_token_head", KVQuantMode.INT4_PER_TOKEN_HEAD, DType.UINT8),
        ("nvfp4", KVQuantMode.NVFP4, DType.UINT8),
        ("nvfp4_4over6", KVQuantMode.NVFP4, DType.UINT8),
        ("nvfp4_ds_mla", KVQuantMode.NVFP4_DS_MLA, DType.UINT8),
        ("turboquant_k8v4", KVQuantMode.TURBOQUANT_K8V4, DType.UINT8),
        ("octave_k3v3_compact", KVQuantMode.OCTAVE_K3V3_COMPACT, DType.UINT8),
        ("ultraquant_4bit", KVQuantMode.ULTRAQUANT_4BIT, DType.UINT8),
    ],
)
def test_kv_dtype_names(cache_dtype: str, mode: KVQuantMode, elements: DType) -> None:
    assert kv_quant_mode(cache_dtype) is mode
    assert cache_elements(cache_dtype, DType.BFLOAT16) is elements
    assert is_quantized(cache_dtype) == (mode is not KVQuantMode.NONE)


def test_an_unknown_kv_dtype_is_an_error() -> None:
    with pytest.raises(InputError, match="int2"):
        cache_elements("int2", DType.BFLOAT16)
