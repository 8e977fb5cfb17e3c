"""Which backend serves a layer: card x head size x dtype x KV dtype.

Every row was answered by vLLM 0.33.0 itself, posed as on the card.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.backends.selection import BACKENDS, backend_named
from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import UnplannableError
from tests.backends.builders import chunked, layer, plan, sliding

Row = tuple[str, int, str, str]

PLAIN: tuple[Row, ...] = (
    ("H100", 16, "auto", "FLASH_ATTN"),
    ("H100", 20, "auto", "FLEX_ATTENTION"),
    ("H100", 80, "auto", "FLASH_ATTN"),
    ("H100", 128, "auto", "FLASH_ATTN"),
    ("H100", 256, "auto", "FLASH_ATTN"),
    ("H100", 512, "auto", "FLASH_ATTN"),
    ("H100", 576, "auto", "TRITON_ATTN"),
    ("H100", 128, "bfloat16", "FLASH_ATTN"),
    ("H100", 128, "fp8", "FLASH_ATTN"),
    ("H100", 128, "fp8_e4m3", "FLASH_ATTN"),
    ("H100", 320, "fp8", "TRITON_ATTN"),
    ("H100", 512, "fp8", "FLASH_ATTN"),
    ("H100", 128, "fp8_e5m2", "FLASHINFER"),
    ("H100", 96, "fp8_e5m2", "TRITON_ATTN"),
    ("H100", 128, "nvfp4", "FLASHINFER"),
    ("H100", 128, "int4_per_token_head", "TRITON_ATTN"),
    ("H100", 128, "int8_per_token_head", "TRITON_ATTN"),
    ("H100", 128, "fp8_per_token_head", "TRITON_ATTN"),
    ("A100", 128, "auto", "FLASH_ATTN"),
    ("A100", 512, "auto", "FLASHINFER"),
    ("A100", 320, "auto", "TRITON_ATTN"),
    ("A100", 128, "fp8", "FLASHINFER"),
    ("L4", 128, "fp8", "FLASHINFER"),
    ("L4", 80, "fp8", "TRITON_ATTN"),
    ("B200", 128, "auto", "FLASHINFER"),
    ("B200", 80, "auto", "FLASH_ATTN"),
    ("B200", 192, "auto", "FLASH_ATTN"),
    ("B200", 80, "fp8", "FLASH_ATTN"),
    ("B200", 192, "fp8", "TRITON_ATTN"),
    ("B200", 128, "nvfp4_4over6", "FLASHINFER"),
    ("RTX5090", 128, "auto", "FLASH_ATTN"),
    ("RTX5090", 128, "fp8", "FLASHINFER"),
    ("RTX5090", 320, "auto", "TRITON_ATTN"),
)


def served_by(*layers: Any, **changes: Any) -> dict[str, int]:
    return dict(plan(*layers, **changes).backends[0])


@pytest.mark.parametrize(("card", "head_size", "cache_dtype", "backend"), PLAIN)
def test_plain_layer(card: str, head_size: int, cache_dtype: str, backend: str) -> None:
    layers = (layer(head_size=head_size),)
    assert served_by(*layers, card=card, cache_dtype=cache_dtype) == {backend: 1}


@pytest.mark.parametrize(
    ("dtype", "backend"),
    [(DType.FLOAT16, "FLASH_ATTN"), (DType.BFLOAT16, "FLASH_ATTN"), (DType.FLOAT32, "TRITON_ATTN")],
)
def test_model_dtype(dtype: DType, backend: str) -> None:
    assert served_by(layer(), dtype=dtype) == {backend: 1}


@pytest.mark.parametrize(
    ("card", "backend"),
    [("A100", "TRITON_ATTN"), ("H100", "FLASH_ATTN"), ("B200", "FLASHINFER")],
)
def test_sinks(card: str, backend: str) -> None:
    assert served_by(layer(head_size=64, has_sink=True), card=card) == {backend: 1}


@pytest.mark.parametrize(
    ("card", "head_size", "cache_dtype", "backend"),
    [
        ("H100", 256, "auto", "TRITON_FLASH_ATTN"),
        ("H100", 256, "fp8", "TRITON_FLASH_ATTN"),
        ("H100", 128, "auto", "TRITON_ATTN"),
        ("A100", 256, "auto", "TRITON_ATTN"),
        ("B200", 256, "auto", "TRITON_FLASHINFER"),
        ("B200", 128, "auto", "FLASH_ATTN"),
    ],
)
def test_image_prefix(card: str, head_size: int, cache_dtype: str, backend: str) -> None:
    prefix = layer(head_size=head_size, mm_prefix=True)
    assert served_by(prefix, card=card, cache_dtype=cache_dtype) == {backend: 1}


@pytest.mark.parametrize(
    ("args", "backend"),
    [
        (EngineArgs(), "TRITON_FLASH_ATTN"),
        (EngineArgs(language_model_only=True), "FLASH_ATTN"),
        (EngineArgs(limit_mm_per_prompt={"image": 0}), "TRITON_FLASH_ATTN"),
        (EngineArgs(limit_mm_per_prompt={"image": 0, "video": {"count": 0}}), "FLASH_ATTN"),
    ],
)
def test_text_only_serving_drops_the_image_prefix(args: EngineArgs, backend: str) -> None:
    prefix = layer(head_size=256, mm_prefix=True)
    assert served_by(prefix, args=args, modalities=("image", "video")) == {backend: 1}


@pytest.mark.parametrize(
    ("card", "has_sink", "backend"),
    [
        ("A100", False, "TRITON_ATTN_DIFFKV"),
        ("H100", False, "FLASH_ATTN_DIFFKV"),
        ("H100", True, "FLASH_ATTN_DIFFKV"),
        ("B200", True, "FLASH_ATTN_DIFFKV"),
    ],
)
def test_keys_and_values_of_different_sizes(card: str, has_sink: bool, backend: str) -> None:
    diff_kv = layer(head_size=192, head_size_v=128, has_sink=has_sink)
    assert served_by(diff_kv, card=card) == {backend: 1}


@pytest.mark.parametrize(
    ("card", "cache_dtype", "backends"),
    [
        ("H100", "auto", {"FLASH_ATTN": 2}),
        ("H100", "fp8", {"FLASH_ATTN": 2}),
    ],
)
def test_gemma4_text(card: str, cache_dtype: str, backends: dict[str, int]) -> None:
    layers = (sliding(0, head_size=256), layer(1, head_size=512))
    served = served_by(
        *layers, card=card, cache_dtype=cache_dtype, architecture="Gemma4ForCausalLM"
    )
    assert served == backends


def test_diffusion_splits_its_layers_on_hopper_with_fp8() -> None:
    layers = (sliding(0, head_size=256), layer(1, head_size=512))
    answer = plan(
        *layers,
        cache_dtype="fp8",
        architecture="DiffusionGemmaForBlockDiffusion",
        config={"canvas_length": 256},
    )
    assert dict(answer.backends[0]) == {"FLASHINFER": 1, "FLASH_ATTN": 1}
    assert answer.block_size == 64


def test_the_users_backend_wins() -> None:
    assert served_by(layer(), attention_backend="TRITON_ATTN") == {"TRITON_ATTN": 1}
    prefixed = "AttentionBackendEnum.FLEX_ATTENTION"
    assert served_by(layer(), attention_backend=prefixed) == {"FLEX_ATTENTION": 1}


def test_chunked_layers_count_under_their_backend() -> None:
    assert served_by(chunked(0), layer(1)) == {"FLASH_ATTN": 2}


def test_every_known_backend_is_found_by_its_name() -> None:
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert backend_named(name) is backend


def test_an_unknown_backend_is_not_guessed() -> None:
    with pytest.raises(UnplannableError, match="HPC_ATTN"):
        served_by(layer(), attention_backend="HPC_ATTN")
