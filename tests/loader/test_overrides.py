"""hf-overrides: as the engine applies a dict."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.loader.load import load
from kvplan_cli.loader.overrides import apply_hf_overrides
from tests.loader.builders import CONFIG

_WRAPPED: dict[str, Any] = {
    "model_type": "not-known-anywhere",
    "text_config": {"hidden_size": 8, "rope_parameters": {"a": 1, "b": 2}},
    "rope_parameters": {"rope_type": "default", "rope_theta": 1.0},
    "quantization_config": {"quant_method": "fp8", "bits": 8},
}


@pytest.mark.parametrize(
    ("overrides", "path", "expected"),
    [
        ({"vocab_size": 7}, ["vocab_size"], 7),
        ({"text_config": {"hidden_size": 9}}, ["text_config", "hidden_size"], 9),
        # A nested config is merged, whatever objects it holds.
        (
            {"text_config": {"rope_parameters": {"b": 3}}},
            ["text_config", "rope_parameters"],
            {"a": 1, "b": 3},
        ),
        # An object that is no config is replaced as a whole.
        ({"rope_parameters": {"factor": 2}}, ["rope_parameters"], {"factor": 2}),
        ({"quantization_config": {"bits": 4}}, ["quantization_config"], {"bits": 4}),
        ({"vision_config": {"x": 1}}, ["vision_config"], {"x": 1}),
        ({"text_config": 3}, ["text_config"], 3),
    ],
)
def test_configs_are_merged_and_values_replaced(
    overrides: dict[str, Any], path: list[str], expected: Any
) -> None:
    value: Any = apply_hf_overrides(_WRAPPED, overrides)
    for key in path:
        value = value[key]
    assert value == expected


def test_two_names_of_one_attribute_never_stand_together() -> None:
    config = apply_hf_overrides(_WRAPPED, {"rope_scaling": {"rope_type": "yarn", "factor": 4}})
    assert "rope_parameters" not in config
    config = apply_hf_overrides(CONFIG, {"dtype": "float16"})
    assert "torch_dtype" not in config


def test_the_file_is_left_alone() -> None:
    apply_hf_overrides(_WRAPPED, {"text_config": {"hidden_size": 9}})
    assert _WRAPPED["text_config"]["hidden_size"] == 8


def test_what_followed_from_the_file_still_does() -> None:
    # The engine overrides after the class has made 42 layer types; they stay.
    config = {"model_type": "gemma2", "num_hidden_layers": 42}
    overridden = apply_hf_overrides(config, {"num_hidden_layers": 4})
    assert overridden["num_hidden_layers"] == 4
    assert len(overridden["layer_types"]) == 42


def test_another_model_type_chooses_another_class() -> None:
    overridden = apply_hf_overrides({"model_type": "x"}, {"model_type": "mistral", "a": 1})
    assert overridden["sliding_window"] == 4096


def test_a_source_remembers_what_was_overridden() -> None:
    source = load("llama-3.1-8b").source
    assert source is not None
    changed = source.overridden({"max_position_embeddings": 100}, "--hf-overrides")
    assert changed.config["max_position_embeddings"] == 100
    assert changed.value_origins == {"max_position_embeddings": "--hf-overrides"}
    assert source.overridden({}, "--hf-overrides") is source
