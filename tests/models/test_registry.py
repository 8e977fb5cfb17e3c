"""The registry: traits, names the engine adapts, and what it says of unknown ones."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import (
    EngineRefusalError,
    InputError,
    MissingFieldError,
    UnplannableError,
)
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.other_families import DROPPED, OTHER_FAMILIES, PLUGINS
from kvplan_cli.models.registry import (
    ARCHITECTURES,
    find_architecture,
    known_architectures,
    model_shape,
)
from kvplan_cli.models.shape import RunnerType
from tests.models.configs import SIZES, config, shape, wrapped


def test_every_row_has_one_home() -> None:
    known = known_architectures()
    assert [traits.architecture for traits in known] == sorted(ARCHITECTURES)
    assert not set(ARCHITECTURES) & (set(OTHER_FAMILIES) | set(DROPPED) | set(PLUGINS))


@pytest.mark.parametrize(
    ("architecture", "runner", "pp", "multimodal"),
    [
        ("LlamaForCausalLM", RunnerType.GENERATE, True, False),
        ("LlamaModel", RunnerType.GENERATE, True, False),
        ("Gemma3TextModel", RunnerType.POOLING, False, False),
        ("Gemma3nForCausalLM", RunnerType.GENERATE, False, False),
        ("LlavaForConditionalGeneration", RunnerType.GENERATE, True, True),
        ("CLIPModel", RunnerType.POOLING, False, True),
        # The engine has no class of these names and adapts a generative one.
        ("Qwen3Model", RunnerType.POOLING, True, False),
        ("LlamaForSequenceClassification", RunnerType.POOLING, True, False),
    ],
)
def test_traits(architecture: str, runner: RunnerType, pp: bool, multimodal: bool) -> None:
    traits = find_architecture(HfConfig({"architectures": [architecture]}))
    assert traits.architecture == architecture
    assert (traits.runner_type, traits.supports_pp) == (runner, pp)
    assert traits.is_multimodal is multimodal


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}, True),
        ({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}, False),
        ({"architectures": ["LlavaForConditionalGeneration"], "is_mm_prefix_lm": True}, True),
        (
            {
                "architectures": ["Gemma4ForConditionalGeneration"],
                "model_type": "gemma4",
                "text_config": {"use_bidirectional_attention": "vision"},
            },
            True,
        ),
        (
            {
                "architectures": ["Gemma4ForConditionalGeneration"],
                "model_type": "gemma4",
                "text_config": {},
            },
            False,
        ),
    ],
)
def test_prefix_lm(values: dict[str, Any], expected: bool) -> None:
    assert find_architecture(HfConfig(values)).is_mm_prefix_lm is expected


def test_prefix_lm_marks_layers_and_names_its_modalities() -> None:
    given = model_shape(
        wrapped(
            "Gemma3ForConditionalGeneration",
            "gemma3",
            "text_config",
            model_type="gemma3_text",
            head_dim=64,
            sliding_window=512,
        )
    )
    assert all(layer.mm_prefix for layer in given.attention_layers)
    assert given.modalities == ("image",)


@pytest.mark.parametrize(
    ("model_type", "architecture"), [("llama", "LlamaModel"), ("qwen3", "Qwen3Model")]
)
def test_absent_architectures_come_from_the_type(model_type: str, architecture: str) -> None:
    values = {**SIZES, "model_type": model_type}
    assert find_architecture(HfConfig(values)).architecture == architecture


def test_absent_architectures_of_an_unknown_type_are_asked_for() -> None:
    with pytest.raises(MissingFieldError) as caught:
        find_architecture(HfConfig({"model_type": "nothing-known"}))
    assert caught.value.field == "architectures"


def test_architectures_must_be_names() -> None:
    with pytest.raises(InputError, match="architectures: expected a list of names"):
        find_architecture(HfConfig({"architectures": [3]}))


def test_unknown_architecture_names_the_nearest_and_the_way_out() -> None:
    with pytest.raises(UnplannableError) as caught:
        find_architecture(HfConfig({"architectures": ["LlamaForCausalML"]}))
    said = str(caught.value)
    assert "kvplan does not know the architecture LlamaForCausalML" in said
    assert "nearest known: LlamaForCausalLM" in said
    assert "layer specs in a plan file" in said


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("Terratorch", "runs any module of another library, without a KV cache"),
        ("Eagle3LlamaForCausalLM", "is a draft model for speculative decoding"),
    ],
)
def test_other_families_are_named(architecture: str, words: str) -> None:
    with pytest.raises(UnplannableError) as caught:
        find_architecture(HfConfig({"architectures": [architecture]}))
    assert f"{architecture} {words}; kvplan does not plan this family yet" in str(caught.value)


def test_dropped_architecture_is_refused_in_the_engines_words() -> None:
    with pytest.raises(EngineRefusalError) as caught:
        find_architecture(HfConfig({"architectures": ["MPTForCausalLM"]}))
    assert caught.value.stage == "config_error"
    assert caught.value.message == (
        "Model architecture MPTForCausalLM was supported in vLLM until v0.28.0, and is not "
        "supported anymore. Please use an older version of vLLM if you want to use this model "
        "architecture."
    )


@pytest.mark.parametrize(
    ("architecture", "model_type", "keys", "layer"),
    [
        ("MiniMaxForCausalLM", "minimax", {}, 1),
        ("BambaForCausalLM", "bamba", {"attn_layer_indices": [3]}, 0),
    ],
)
def test_linear_layers_do_not_go_through_the_library(
    architecture: str, model_type: str, keys: dict[str, Any], layer: int
) -> None:
    with pytest.raises(EngineRefusalError) as caught:
        shape(architecture, model_type, **keys)
    assert caught.value.message.startswith(f"Layer {layer} (linear_attention) does not dispatch")


def test_an_inner_model_without_a_row_is_named_too() -> None:
    inner = wrapped(
        "LlavaForConditionalGeneration",
        "llava",
        "text_config",
        architectures=["Eagle3LlamaForCausalLM"],
    )
    with pytest.raises(
        UnplannableError, match=r"text_config\.architectures: Eagle3LlamaForCausalLM"
    ):
        model_shape(inner)


def test_auto_map_is_ignored() -> None:
    given = config("LlamaForCausalLM", "llama", auto_map={"AutoModel": "evil.Model"})
    assert len(model_shape(given).layers) == 8
