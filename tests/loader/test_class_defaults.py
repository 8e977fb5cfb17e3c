"""What a config's class adds beneath the file's values."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from kvplan_cli.errors import InputError, UnplannableError
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.loader.load import load
from tests.loader.builders import CONFIG, write_json
from tests.loader.faults import problem


def test_the_files_values_stay_on_top() -> None:
    merged, origins = with_class_defaults({"model_type": "llama", "hidden_size": 64})
    assert merged["hidden_size"] == 64
    assert merged["num_hidden_layers"] == 32
    assert "hidden_size" not in origins
    assert origins["num_hidden_layers"] == "default of LlamaConfig (transformers)"


def test_what_the_class_works_out_follows_the_file() -> None:
    config = {"model_type": "gemma3", "text_config": {"num_hidden_layers": 12}}
    merged, origins = with_class_defaults(config)
    assert merged["text_config"]["layer_types"].count("full_attention") == 2
    assert len(merged["text_config"]["layer_types"]) == 12
    assert merged["text_config"]["sliding_window"] == 4096
    assert "text_config.sliding_window" in origins


@pytest.mark.parametrize("model_type", ["colqwen3", "ops_colqwen3", "qwen3_vl_nemotron_embed"])
def test_a_class_that_adds_to_the_librarys_has_its_defaults(model_type: str) -> None:
    merged, _ = with_class_defaults({"model_type": model_type, "vision_config": {"depth": 2}})
    assert merged["model_type"] == model_type
    assert merged["vision_config"]["num_position_embeddings"] == 2304


def test_a_missing_part_comes_whole() -> None:
    merged, _ = with_class_defaults({"model_type": "gemma3"})
    assert merged["text_config"]["num_hidden_layers"] == 26


def test_null_is_answered_where_the_class_knows_better() -> None:
    merged, _ = with_class_defaults({"model_type": "llama", "num_key_value_heads": None})
    assert merged["num_key_value_heads"] == 32
    merged, _ = with_class_defaults({"model_type": "mistral", "sliding_window": None})
    assert merged["sliding_window"] is None
    merged, _ = with_class_defaults({"model_type": "mistral"})
    assert merged["sliding_window"] == 4096


def test_other_names_of_a_value_are_there_too() -> None:
    merged, _ = with_class_defaults({"model_type": "gpt2", "n_layer": 3})
    assert merged["num_hidden_layers"] == 3


def test_the_files_mapping_is_left_alone() -> None:
    config = {"model_type": "gemma3", "text_config": {"num_hidden_layers": 12}}
    before = copy.deepcopy(config)
    with_class_defaults(config)
    assert config == before


def test_the_engines_class_is_asked_where_it_differs() -> None:
    merged, origins = with_class_defaults({"model_type": "kimi_k2"})
    assert merged["kv_lora_rank"] == 512
    assert "DeepseekV3Config" in origins["kv_lora_rank"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "no_such_type"}, "has no class for no_such_type"),
        ({"model_type": "../../evil"}, "has no class for"),
        ({"model_type": "kimi_linear"}, "a class of its own"),
        ({"architectures": ["X"]}, "no model_type"),
        ({"model_type": ["llama"]}, "no model_type"),
    ],
)
def test_an_unknown_class_can_not_be_planned(config: dict[str, object], reason: str) -> None:
    found = problem(with_class_defaults, config, "c.json", error=UnplannableError)
    assert found.where == "c.json"
    assert reason in found.reason


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": "many"},
        {"hidden_size": 100, "num_attention_heads": 3},
        {"rope_scaling": [1]},
    ],
)
def test_what_the_class_refuses_is_wrong_input(config: dict[str, object]) -> None:
    found = problem(with_class_defaults, {"model_type": "llama", **config}, error=InputError)
    assert "its config class refuses it" in found.reason


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with_class_defaults({"model_type": "llama"})
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_source_is_completed_and_says_so(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "num_key_value_heads"}
    source = load(str(write_json(tmp_path / "c.json", config))).source
    assert source is not None
    completed = source.completed()
    assert completed.config["num_key_value_heads"] == 4
    assert "LlamaConfig" in completed.value_origins["num_key_value_heads"]
