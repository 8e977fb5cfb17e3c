"""What single architectures' hooks reject of configs and pipeline stages."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.settings.model_hooks import check_config, check_pipeline

ALICE = "AliceAIForCausalLM"
SERVED = {
    "kda_allow_negative_eigenvalues": False,
    "router_score_function": "sigmoid",
    "router_bias_correction": True,
}


def test_a_served_alice_passes() -> None:
    check_config(ALICE, HfConfig(SERVED))


@pytest.mark.parametrize(
    ("change", "error_type"),
    [
        ({"kda_allow_negative_eigenvalues": True}, "NotImplementedError"),
        ({"router_score_function": "softmax"}, "ValidationError"),
        ({"router_bias_correction": False}, "ValidationError"),
    ],
)
def test_another_alice_is_rejected(change: dict[str, Any], error_type: str) -> None:
    with pytest.raises(EngineRefusalError) as caught:
        check_config(ALICE, HfConfig({**SERVED, **change}))
    assert caught.value.error_type == error_type


def test_one_stage_for_n_gram_embeddings_only_where_there_are_any() -> None:
    check_pipeline("Qwen4ExpForCausalLM", HfConfig({}), 2)
    check_pipeline("Qwen4ExpForCausalLM", HfConfig({"ple_layer_ids": [1]}), 1)
    with pytest.raises(EngineRefusalError, match="requires pipeline_parallel_size=1"):
        check_pipeline("Qwen4ExpForCausalLM", HfConfig({"ple_layer_ids": [1]}), 2)
