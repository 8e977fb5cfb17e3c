"""The engine's name for the weights' quantization, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.gpus import Gpu
from kvplan_cli.settings.quantization_methods import METHODS
from tests.settings.builders import T4, llama, refusal, refused_in, resolved

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
MODELOPT = {"producer": {"name": "modelopt"}}


@pytest.mark.parametrize(
    ("checkpoint", "method"),
    [
        (AWQ, "auto_awq"),
        (GPTQ, "auto_gptq"),
        (FP8, "fp8"),
        ({"quant_method": "FP8"}, "fp8"),
        ({"quant_method": "gptq_marlin"}, "gptq_marlin"),
        ({"quant_method": "auto-round", "bits": 4}, "inc"),
        ({"quant_method": "compressed_tensors"}, "compressed-tensors"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "mxfp8"}, "mxfp8"),
        ({"quant_method": "experts_int8"}, "experts_int8"),
        ({"quant_method": "deepseek_v4_fp8"}, "deepseek_v4_fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt_fp4"),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "modelopt_mxfp8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "modelopt_mixed"),
        ({**MODELOPT, "quantization": {"quant_algo": "FP8_PB_WO"}}, "modelopt"),
        ({**MODELOPT, "quantization": {"quant_algo": "NVFP4"}}, "modelopt_fp4"),
        ({"quant_method": ""}, None),
        ({"bits": 4}, None),
        (None, None),
    ],
)
def test_a_checkpoints_method(checkpoint: dict[str, Any] | None, method: str | None) -> None:
    assert resolved(llama(quantization_config=checkpoint)).quantization == method


def test_other_places_for_it() -> None:
    assert resolved(llama(compression_config=FP8)).quantization == "fp8"
    text = {"quantization_config": FP8, "max_position_embeddings": 4096}
    assert resolved(llama(text_config=text)).quantization == "fp8"


def test_gpt_oss_has_a_method_of_its_own() -> None:
    config = llama(model_type="gpt_oss", quantization_config={"quant_method": "mxfp4"})
    for flag in (None, "mxfp4", "gpt_oss_mxfp4", "fp8"):
        assert resolved(config, quantization=flag).quantization == "gpt_oss_mxfp4"
    assert refused_in(config, quantization="humming") == (
        "For gpt-oss model, use '--moe-backend humming' instead of '--quantization humming'."
    )
    assert refused_in(config, dtype="float16") == (
        "torch.float16 is not supported for quantization method gpt_oss_mxfp4. Supported "
        "dtypes: [torch.bfloat16]"
    )


@pytest.mark.parametrize(
    ("checkpoint", "flag", "method"),
    [
        (AWQ, "awq", "auto_awq"),
        (AWQ, "awq_marlin", "auto_awq"),
        (AWQ, "marlin", "auto_awq"),
        (AWQ, "moe_wna16", "moe_wna16"),
        (GPTQ, "gptq", "auto_gptq"),
        (GPTQ, "GPTQ", "auto_gptq"),
        (GPTQ, "moe_wna16", "moe_wna16"),
        ({**GPTQ, "desc_act": True, "group_size": -1}, "moe_wna16", "moe_wna16"),
        (FP8, "fp8", "fp8"),
        (FP8, "deepseek_v4_fp8", "deepseek_v4_fp8"),
        (FP8, "humming", "humming"),
    ],
)
def test_flags_that_agree(checkpoint: dict[str, Any], flag: str, method: str) -> None:
    assert resolved(llama(quantization_config=checkpoint), quantization=flag).quantization == method


@pytest.mark.parametrize(
    ("checkpoint", "flag"),
    [
        (AWQ, "gptq"),
        (AWQ, "fp8"),
        (AWQ, "bitsandbytes"),
        (GPTQ, "awq"),
        (FP8, "awq"),
        (FP8, "moe_wna16"),
        (FP8, "mxfp8"),
        ({**GPTQ, "desc_act": True}, "moe_wna16"),
        ({**GPTQ, "bits": 3}, "moe_wna16"),
        ({**GPTQ, "dynamic": {"+:x": {"desc_act": True}}}, "moe_wna16"),
    ],
)
def test_flags_that_differ(checkpoint: dict[str, Any], flag: str) -> None:
    message = refused_in(llama(quantization_config=checkpoint), quantization=flag)
    assert message == (
        f"Quantization method specified in the model config ({checkpoint['quant_method']}) does "
        f"not match the quantization method specified in the `quantization` argument ({flag})."
    )


@pytest.mark.parametrize("name", ["bitsandbytes", "hqq", "bitnet"])
def test_methods_that_the_engine_does_not_have(name: str) -> None:
    expected = f"Unknown quantization method: {name}. Must be one of ['awq', 'auto_awq', 'fp8', "
    assert refused_in(llama(quantization_config={"quant_method": name})).startswith(expected)
    message = refused_in(quantization=name)
    assert message.startswith(expected)
    assert message.endswith("'nvfp4_per_token', 'mxfp8'].")


@pytest.mark.parametrize("name", ["fbgemm_fp8", "fp_quant"])
def test_deprecated_methods(name: str) -> None:
    assert refused_in(quantization=name) == (
        "('The quantization method %s is deprecated and will be removed in future versions of "
        f"vLLM. To bypass, set `--allow-deprecated-quantization`.', '{name}')"
    )


def test_an_unknown_modelopt_algorithm() -> None:
    config = llama(quantization_config={**MODELOPT, "quantization": {"quant_algo": "W4A8"}})
    assert refused_in(config) == "Unknown ModelOpt quant algo: W4A8"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_plain_weights_and_every_method(name: str) -> None:
    method = METHODS[name]
    if name in ("fbgemm_fp8", "fp_quant"):
        return
    if method.failure is not None:
        error = refusal(quantization=name)
        assert (error.error_type, error.message) == ("TypeError", method.failure)
    elif method.online:
        assert resolved(quantization=name).quantization == name
    else:
        assert refused_in(quantization=name) == f"Cannot find the config file for {name}"


@pytest.mark.parametrize(
    ("checkpoint", "gpu", "least"), [({"quant_method": "mxfp4"}, T4, 80), (FP8, T4, None)]
)
def test_a_card_may_be_too_old(checkpoint: dict[str, Any], gpu: Gpu, least: int | None) -> None:
    config = llama(quantization_config=checkpoint)
    if least is None:
        assert resolved(config, gpu=gpu).quantization == "fp8"
        return
    assert refused_in(config, gpu=gpu) == (
        f"The quantization method mxfp4 is not supported for the current GPU. Minimum "
        f"capability: {least}. Current capability: 75."
    )


@pytest.mark.parametrize(
    ("checkpoint", "dtypes"),
    [
        (FP8, "torch.bfloat16, torch.float16"),
        (AWQ, "torch.float16, torch.bfloat16"),
        ({"quant_method": "modelopt_fp4"}, "torch.bfloat16, torch.float16, torch.float8_e4m3fn"),
    ],
)
def test_types_that_a_method_cannot_compute_in(checkpoint: dict[str, Any], dtypes: str) -> None:
    message = refused_in(llama(quantization_config=checkpoint), dtype="float32")
    assert message.startswith("torch.float32 is not supported for quantization method ")
    assert message.endswith(f". Supported dtypes: [{dtypes}]")
