"""``--dtype`` and what ``auto`` makes of the checkpoint's type."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.errors import InputError
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.model_dtype import model_dtype
from tests.settings.builders import T4, llama, refused_in

GENERATE, POOLING = RunnerType.GENERATE, RunnerType.POOLING


@pytest.mark.parametrize(
    ("stated", "runner", "gpu", "dtype"),
    [
        ("bfloat16", GENERATE, H100_80GB, DType.BFLOAT16),
        ("float16", GENERATE, H100_80GB, DType.FLOAT16),
        ("float32", GENERATE, H100_80GB, DType.BFLOAT16),
        ("float64", GENERATE, H100_80GB, DType.BFLOAT16),
        ("float8_e4m3fn", GENERATE, H100_80GB, DType.BFLOAT16),
        (..., GENERATE, H100_80GB, DType.BFLOAT16),
        (None, GENERATE, H100_80GB, DType.BFLOAT16),
        ("float32", POOLING, H100_80GB, DType.FLOAT16),
        ("bfloat16", POOLING, H100_80GB, DType.BFLOAT16),
        ("bfloat16", GENERATE, T4, DType.FLOAT16),
        ("float32", GENERATE, T4, DType.FLOAT16),
    ],
)
def test_auto(stated: Any, runner: RunnerType, gpu: Gpu, dtype: DType) -> None:
    assert model_dtype(llama(dtype=stated), "auto", runner, gpu) is dtype
    old = llama(dtype=..., torch_dtype=stated)
    assert model_dtype(old, "auto", runner, gpu) is dtype


@pytest.mark.parametrize(
    ("flag", "dtype"),
    [
        ("half", DType.FLOAT16),
        ("float16", DType.FLOAT16),
        ("bfloat16", DType.BFLOAT16),
        ("float", DType.FLOAT32),
        ("float32", DType.FLOAT32),
    ],
)
def test_given(flag: str, dtype: DType) -> None:
    assert model_dtype(llama(), flag, GENERATE, H100_80GB) is dtype


@pytest.mark.parametrize("flag", ["fp8", "Float16", "torch.float16"])
def test_names_that_are_none(flag: str) -> None:
    assert refused_in(dtype=flag) == (
        "dtype: Input should be 'auto', 'half', 'float16', 'bfloat16', 'float' or 'float32'"
    )


@pytest.mark.parametrize("model_type", ["gemma2", "gemma3_text", "glm4"])
def test_families_that_overflow_in_float16(model_type: str) -> None:
    stated = llama(model_type=model_type, dtype="float16")
    assert model_dtype(stated, "auto", GENERATE, H100_80GB) is DType.BFLOAT16
    assert model_dtype(stated, "auto", POOLING, H100_80GB) is DType.BFLOAT16
    assert refused_in(llama(model_type=model_type), dtype="float16") == (
        f"The model type '{model_type}' does not support float16. Reason: Numerical "
        "instability. Please use bfloat16 or float32 instead."
    )


@pytest.mark.parametrize(
    "config",
    [
        {"text_config": {"dtype": "float16"}},
        {"text_config": {}, "vision_config": {"torch_dtype": "float16"}},
        {"text_config": {}, "encoder_config": {"dtype": "float16"}},
        {"dtype": "float16", "text_config": {"dtype": "bfloat16"}},
    ],
)
def test_parts_of_a_multimodal_config_may_state_it(config: dict[str, Any]) -> None:
    assert model_dtype(HfConfig(config), "auto", GENERATE, H100_80GB) is DType.FLOAT16


@pytest.mark.parametrize("stated", ["torch.float16", "nonsense", 16])
def test_a_type_that_torch_does_not_have(stated: object) -> None:
    with pytest.raises(InputError, match="dtype"):
        model_dtype(llama(dtype=stated), "auto", GENERATE, H100_80GB)
