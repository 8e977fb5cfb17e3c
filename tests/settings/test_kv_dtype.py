"""The KV cache's type: given, or the checkpoint's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.models.shape import ArchitectureTraits
from kvplan_cli.settings.kv_dtype import KV_CACHE_DTYPES
from tests.settings.builders import llama, refused_in, resolved

MLA = ArchitectureTraits(architecture="DeepseekV3ForCausalLM", use_mla=True)


@pytest.mark.parametrize("name", [name for name in KV_CACHE_DTYPES if name != "float16"])
def test_every_name_that_the_engine_lists(name: str) -> None:
    assert resolved(kv_cache_dtype=name).cache_dtype == name


@pytest.mark.parametrize("name", ["fp4", "FP8", "int8", ""])
def test_illegal_names(name: str) -> None:
    assert refused_in(kv_cache_dtype=name) == (
        f"Invalid kv_cache_dtype: '{name}'. Valid values are: ['auto', 'float16', 'bfloat16', "
        "'fp8', 'fp8_e4m3', 'fp8_e5m2', 'fp8_inc', 'fp8_ds_mla', 'nvfp4_ds_mla', "
        "'turboquant_k8v4', 'turboquant_4bit_nc', 'turboquant_k3v4_nc', 'turboquant_3bit_nc', "
        "'octave_k3v4', 'octave_k3v3', 'octave_k3v3_compact', 'ultraquant_4bit', "
        "'int4_per_token_head', 'int8_per_token_head', 'fp8_per_token_head', 'nvfp4', "
        "'nvfp4_4over6']"
    )


@pytest.mark.parametrize(
    ("name", "dtype", "way_out"),
    [
        ("float16", "bfloat16", "`auto` or `bfloat16`"),
        ("bfloat16", "float16", "`auto` or `float16`"),
        ("bfloat16", "float32", "`auto`"),
    ],
)
def test_a_float_cache_has_the_models_type(name: str, dtype: str, way_out: str) -> None:
    assert resolved(kv_cache_dtype=name, dtype=name).cache_dtype == name
    assert refused_in(kv_cache_dtype=name, dtype=dtype) == (
        f'kv_cache_dtype="{name}" is incompatible with dtype="{dtype}". Please set '
        f"`--kv-cache-dtype` to {way_out}."
    )


@pytest.mark.parametrize("name", ["nvfp4", "nvfp4_4over6"])
def test_plain_nvfp4_does_not_suit_mla(name: str) -> None:
    latent = llama(model_type="deepseek_v3")
    assert refused_in(latent, traits=MLA, kv_cache_dtype=name).startswith(
        "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends."
    )
    packed = resolved(latent, traits=MLA, kv_cache_dtype="nvfp4_ds_mla")
    assert packed.cache_dtype == "nvfp4_ds_mla"
    disabled = {"VLLM_MLA_DISABLE": "1"}
    unfolded = resolved(latent, traits=MLA, kv_cache_dtype=name, env=disabled)
    assert unfolded.cache_dtype == name


FLOAT8 = {"dynamic": False, "num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("quantization", "cache_dtype"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": FLOAT8}, "fp8_e4m3"),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "FP8",
                "kv_cache_scheme": {"num_bits": 4, "type": "float"},
            },
            "nvfp4",
        ),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "FP8",
                "kv_cache_scheme": {"num_bits": 3, "type": "int"},
            },
            "auto",
        ),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "FP8",
                "kv_cache_scheme": {**FLOAT8, "dynamic": True},
            },
            "auto",
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
            "fp8_e4m3",
        ),
        (
            {
                "quant_method": "modelopt",
                "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"},
            },
            "nvfp4",
        ),
        (
            {
                "quant_method": "modelopt",
                "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "INT8"},
            },
            "auto",
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "auto"),
        ({"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}, "auto"),
    ],
)
def test_auto_asks_a_modelopt_checkpoint(quantization: dict[str, Any], cache_dtype: str) -> None:
    config = llama(quantization_config=quantization)
    assert resolved(config).cache_dtype == cache_dtype
    assert resolved(config, kv_cache_dtype="fp8_e5m2").cache_dtype == "fp8_e5m2"


def test_auto_asks_the_file_beside_the_config() -> None:
    beside = {
        "hf_quant_config.json": {
            "producer": {"name": "modelopt"},
            "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
        }
    }
    settings = resolved(extra_files=beside)
    assert (settings.cache_dtype, settings.quantization) == ("fp8_e4m3", "modelopt")
    own = llama(quantization_config={"quant_method": "fp8"})
    settings = resolved(own, extra_files=beside)
    assert (settings.cache_dtype, settings.quantization) == ("auto", "fp8")


def test_a_scheme_that_is_read_when_the_layers_are_built() -> None:
    quantization = {"quant_method": "compressed-tensors", "kv_cache_scheme": FLOAT8}
    settings = resolved(llama(quantization_config=quantization))
    assert (settings.cache_dtype, settings.layer_cache_dtype) == ("auto", "fp8")
    given = resolved(llama(quantization_config=quantization), kv_cache_dtype="bfloat16")
    assert given.layer_cache_dtype == "bfloat16"
    assert resolved().layer_cache_dtype == "auto"
