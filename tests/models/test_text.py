"""Which part of a config is the language model."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import InputError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.text import text_config

PART: dict[str, Any] = {"num_attention_heads": 8}


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"model_type": "llama", "hidden_size": 8}, ""),
        ({"model_type": "llava", "text_config": PART}, "text_config"),
        ({"model_type": "internvl_chat", "llm_config": PART}, "llm_config"),
        ({"model_type": "x", "llm_config": {}, "text_config": PART}, "text_config"),
        ({"model_type": "moss_audio", "language_config": PART}, "language_config"),
        (
            {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": PART}},
            "thinker_config.text_config",
        ),
        (
            {"model_type": "qwen3_asr", "thinker_config": {"text_config": PART}},
            "thinker_config.text_config",
        ),
        ({"model_type": "qwen3_asr", "text_config": PART}, "text_config"),
        ({"model_type": "qwen2_vl", "hidden_size": 8, "vision_config": {}}, ""),
        ({"model_type": "llama", "text_config": None, "hidden_size": 8}, ""),
    ],
)
def test_language_part(values: dict[str, Any], path: str) -> None:
    assert text_config(HfConfig(values)).path == path


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"model_type": "x", "vision_config": {}}, "text_config"),
        # Its class never reads a flat file.
        ({"model_type": "qwen3_vl", "hidden_size": 8}, "text_config"),
        ({"model_type": "qwen2_5_omni"}, "thinker_config"),
    ],
)
def test_missing_part(values: dict[str, Any], field: str) -> None:
    with pytest.raises(MissingFieldError) as caught:
        text_config(HfConfig(values))
    assert caught.value.field == field


def test_two_parts_are_one_too_many() -> None:
    with pytest.raises(InputError, match="several language parts: decoder, text_config"):
        text_config(HfConfig({"decoder": PART, "text_config": PART}))
