"""Configs whose classes leave a null for the KV heads, which the engine cannot read."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.settings.heads import check_kv_heads


@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "nemotron"},
        {"model_type": "nemotron", "num_key_value_heads": None},
        {"model_type": "qwen2_moe", "num_key_value_heads": None},
    ],
)
def test_a_null_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(EngineRefusalError, match="total_num_kv_heads"):
        check_kv_heads(HfConfig(values))


@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "nemotron", "num_key_value_heads": 8},
        {"model_type": "qwen2_moe"},
        {"model_type": "llama", "num_key_value_heads": None},
    ],
)
def test_a_number_and_a_class_that_derives_one_pass(values: dict[str, Any]) -> None:
    check_kv_heads(HfConfig(values))
