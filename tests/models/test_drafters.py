"""Drafters' layers: names behind the target's, kinds, windows, and whose cache they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.detection import detected_method, head_names
from kvplan_cli.models.drafters.draft import Place
from kvplan_cli.models.drafters.layers import (
    draft_model_shape,
    head_is_non_causal,
    head_layers,
)
from kvplan_cli.models.drafters.modules import Modules, own_modules
from kvplan_cli.models.drafters.speculators import as_plain, is_speculators
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import AttentionKind, AttentionLayer

TARGET: Final = HfConfig(
    {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 4096,
    }
)
HEAD: Final[Mapping[str, Any]] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "hidden_size": 2048,
}
BLOCKS: Final = {**HEAD, "architectures": ["DFlashDraftModel"], "model_type": "qwen3"}
WINDOW: Final = {"use_sliding_window": True, "sliding_window": 128}


def place(target: HfConfig = TARGET, stage_layers: int = 32) -> Place:
    return Place(
        num_hidden_layers=32,
        stage_layers=stage_layers,
        target=Language.of(target),
        attention_names={index: f"model.layers.{index}.self_attn.attn" for index in range(32)},
    )


def layers(name: str, at: Place | None = None, **changes: Any) -> list[AttentionLayer]:
    config = HfConfig({**HEAD, **changes})
    made = head_layers([name], config, at or place())
    return [layer for layer in made if isinstance(layer, AttentionLayer)]


def test_a_head_goes_on_where_the_target_ends() -> None:
    first, second = layers("LlamaForCausalLMEagle3")
    assert first.name == "model.layers.32.self_attn.attn"
    assert second.name == "model.layers.33.self_attn.attn"
    assert (first.num_kv_heads, first.head_size, first.kind) == (4, 64, AttentionKind.FULL)


def test_an_older_head_counts_the_last_stage_only() -> None:
    first, _ = layers("EagleLlamaForCausalLM", place(stage_layers=16))
    assert first.name == "model.layers.16.self_attn.attn"


def test_a_head_takes_its_own_windows_and_else_the_targets() -> None:
    windowed = HfConfig({**TARGET.values, "model_type": "mistral", "sliding_window": 4096})
    kinds = ["sliding_attention", "full_attention"]
    own, inherited = layers(
        "LlamaForCausalLMEagle3", place(windowed), layer_types=kinds, sliding_window=512
    )
    assert (own.sliding_window, inherited.sliding_window) == (512, 4096)


def test_kinds_of_an_older_head_are_looked_up_by_the_targets_numbers() -> None:
    with pytest.raises(EngineRefusalError, match="out of bounds for layer_types"):
        layers("EagleLlamaForCausalLM", layer_types=["full_attention"] * 2)


@pytest.mark.parametrize(
    ("changes", "windows", "non_causal"),
    [
        ({}, [None, None], True),
        ({"dflash_config": {"use_swa": True, "swa_window_size": 256}}, [256, 256], True),
        ({"dflash_config": {"causal": True}}, [None, None], False),
        ({"layer_types": ["sliding_attention", "full_attention"], **WINDOW}, [128, None], True),
        ({"layer_types": ["sliding_attention"] * 2, **WINDOW}, [128, 128], False),
    ],
)
def test_drafters_of_blocks(
    changes: dict[str, Any], windows: list[int | None], non_causal: bool
) -> None:
    config = HfConfig({**BLOCKS, **changes})
    made = head_layers(["DFlashDraftModel"], config, place())
    found = [layer.sliding_window for layer in made if isinstance(layer, AttentionLayer)]
    assert found == windows
    assert head_is_non_causal(["DFlashDraftModel"], config) is non_causal


def test_a_window_without_a_size_is_refused() -> None:
    config = HfConfig({**BLOCKS, "dflash_config": {"use_swa": True}})
    with pytest.raises(EngineRefusalError, match="requires a window size"):
        head_layers(["DFlashDraftModel"], config, place())


def modules(**values: Any) -> tuple[Modules, HfConfig]:
    config = HfConfig({**TARGET.values, **values})
    found = own_modules(config)
    assert found is not None
    return found, config


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (
            {"architectures": ["Glm4MoeForCausalLM"], "num_nextn_predict_layers": 2},
            ["model.layers.32.self_attn.attn", "model.layers.33.self_attn.attn"],
        ),
        ({"model_type": "qwen3_next"}, ["mtp.layers.0.self_attn.attn"]),
        (
            {
                "model_type": "nemotron_h",
                "num_nextn_predict_layers": 1,
                "mtp_hybrid_override_pattern": "E*E*",
            },
            ["mtp.layers.1.mixer.attn", "mtp.layers.3.mixer.attn"],
        ),
    ],
)
def test_modules_of_the_checkpoint(values: dict[str, Any], names: list[str]) -> None:
    found, config = modules(**values)
    assert [layer.name for layer in found.all_layers(config, 3)] == names


def test_nemotron_h_has_one_module_at_most() -> None:
    found, config = modules(
        model_type="nemotron_h", num_nextn_predict_layers=2, mtp_hybrid_override_pattern="*E"
    )
    with pytest.raises(EngineRefusalError, match="Only one MTP layer"):
        found.all_layers(config, 2)


def test_a_checkpoint_without_modules_has_none() -> None:
    assert own_modules(TARGET) is None
    nemotron = HfConfig({"model_type": "nemotron_h", "num_nextn_predict_layers": 0})
    assert own_modules(nemotron) is None


def test_a_draft_model_is_set_apart_by_a_prefix() -> None:
    config = HfConfig({**TARGET.values, "architectures": ["LlamaForCausalLM"]})
    assert draft_model_shape(config).layers[0].name == "draft_model.model.layers.0.self_attn.attn"


def test_an_assistant_reads_the_last_cache_of_its_kind() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    gemma = {
        **TARGET.values,
        "model_type": "gemma4_text",
        "layer_types": kinds,
        "sliding_window": 1024,
        "num_kv_shared_layers": 4,
        "global_head_dim": 256,
    }
    own = {**gemma, "num_hidden_layers": 2, "layer_types": kinds[:2]}
    made = head_layers(["Gemma4MTPModel"], HfConfig(own), place(HfConfig(gemma)))
    shared = [layer.kv_sharing_target for layer in made if isinstance(layer, AttentionLayer)]
    assert shared == [f"model.layers.{index}.self_attn.attn" for index in (26, 27)]


@pytest.mark.parametrize(
    ("method", "stated", "name"),
    [
        ("eagle", "LlamaForCausalLM", "EagleLlamaForCausalLM"),
        ("eagle3", "LlamaForCausalLM", "Eagle3LlamaForCausalLM"),
        ("eagle3", "LlamaForCausalLMEagle3", "LlamaForCausalLMEagle3"),
        ("dflash", "Qwen3XPressModel", "DFlashQwen3XPressModel"),
        ("dspark", "Qwen3DSparkModel", "Qwen3DSparkModel"),
        ("dspark", "DeepseekV4ForCausalLM", "DSparkDraftModel"),
    ],
)
def test_names_of_heads(method: str, stated: str, name: str) -> None:
    assert list(head_names(method, HfConfig({"architectures": [stated]}), None)) == [name]


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("org/EAGLE-LLaMA3", "eagle"),
        ("org/Qwen3-8B_eagle3", "eagle3"),
        ("org/Qwen3-8B-DFlash", "dflash"),
        ("org/dspark_qwen3_8b", "dspark"),
        ("org/Qwen3-0.6B", "draft_model"),
    ],
)
def test_the_name_tells_the_method(name: str, method: str) -> None:
    assert detected_method("draft_model", name, ["X"], is_mtp=False) == method


def test_a_checkpoint_of_the_speculators_format() -> None:
    config = HfConfig(
        {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "draft_vocab_size": 32000,
            "transformer_layer_config": {**HEAD, "architectures": None},
        }
    )
    assert is_speculators(config)
    plain = as_plain(config)
    assert plain.list("architectures") == ["Eagle3LlamaForCausalLM"]
    assert plain.positive("head_dim") == 64
