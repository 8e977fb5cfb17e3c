"""Models that the engine runs by the Transformers library's classes."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.modules import own_modules
from kvplan_cli.models.registry import model_shape
from kvplan_cli.settings.model_impl import with_model_impl

LIBRARY = EngineArgs(model_impl="transformers")
LAYERS = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


def config(architecture: str, model_type: str, **keys: Any) -> HfConfig:
    return HfConfig({"architectures": [architecture], "model_type": model_type, **LAYERS, **keys})


@pytest.mark.parametrize(
    ("architecture", "model_type", "keys", "args", "generic"),
    [
        ("LlamaForCausalLM", "llama", {}, LIBRARY, "TransformersForCausalLM"),
        ("OlmoForCausalLM", "olmo2", {}, LIBRARY, "TransformersForCausalLM"),
        ("LlamaForCausalLM", "llama", {}, EngineArgs(), "LlamaForCausalLM"),
        ("LlamaForCausalLM", "llama", {}, EngineArgs(model_impl="vllm"), "LlamaForCausalLM"),
        ("HeliumForCausalLM", "helium", {}, EngineArgs(), "TransformersForCausalLM"),
        ("LlamaModel", "llama", {}, LIBRARY, "TransformersEmbeddingModel"),
        (
            "LlamaModel",
            "llama",
            {},
            EngineArgs(model_impl="transformers", runner="generate"),
            "TransformersForCausalLM",
        ),
        (
            "MixtralForSequenceClassification",
            "mixtral",
            {"num_local_experts": 8},
            LIBRARY,
            "TransformersMoEForSequenceClassification",
        ),
        (
            "LlavaForConditionalGeneration",
            "llava",
            {"text_config": {"model_type": "llama", **LAYERS}},
            LIBRARY,
            "TransformersMultiModalForCausalLM",
        ),
    ],
)
def test_who_runs_it(
    architecture: str, model_type: str, keys: dict[str, Any], args: EngineArgs, generic: str
) -> None:
    served = with_model_impl(config(architecture, model_type, **keys), args)
    assert served.list("architectures") == [generic]


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("llama", "model.layers.0.self_attn.attn"),
        ("gpt2", "model.h.0.attn.attn"),
        ("opt", "model.decoder.layers.0.self_attn.attn"),
    ],
)
def test_names_are_the_librarys(model_type: str, name: str) -> None:
    shape = model_shape(config("TransformersForCausalLM", model_type))
    assert shape.layers[0].name == name


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("llava", "model.language_model.layers.0.self_attn.attn"),
        ("idefics3", "model.text_model.layers.0.self_attn.attn"),
    ],
)
def test_a_wrappers_language_model_goes_by_its_place(model_type: str, name: str) -> None:
    text = {"model_type": "llama", **LAYERS}
    shape = model_shape(config("TransformersMultiModalForCausalLM", model_type, text_config=text))
    assert shape.layers[0].name == name


@pytest.mark.parametrize("pad", [100, 5000, -101])
def test_padding_beyond_the_vocabulary_is_refused(pad: int) -> None:
    with pytest.raises(EngineRefusalError, match="Padding_idx must be within"):
        model_shape(config("TransformersForCausalLM", "llama", pad_token_id=pad))


def test_padding_within_it_is_not() -> None:
    assert model_shape(config("TransformersForCausalLM", "llama", pad_token_id=99)).layers
    assert model_shape(config("TransformersForCausalLM", "gpt2", pad_token_id=5000)).layers


def test_what_passes_the_interface_by_is_refused() -> None:
    with pytest.raises(EngineRefusalError, match="Layer 0 does not dispatch"):
        model_shape(config("TransformersForCausalLM", "diffllama"))
    with pytest.raises(EngineRefusalError, match="'BloomForCausalLM' is not compatible"):
        with_model_impl(config("BloomForCausalLM", "bloom"), LIBRARY)


def test_a_class_of_the_checkpoints_own_is_not_guessed() -> None:
    own = config("OwnForCausalLM", "own", auto_map={"AutoModel": "modeling.Own"})
    with pytest.raises(UnplannableError, match="checkpoint's own code"):
        with_model_impl(own, LIBRARY)
    with pytest.raises(UnplannableError, match="which modules attend"):
        model_shape(config("TransformersForCausalLM", "own"))
    with pytest.raises(UnplannableError, match="terratorch"):
        with_model_impl(own, EngineArgs(model_impl="terratorch"))


def test_modules_of_the_librarys_standard() -> None:
    keys: dict[str, Any] = {"num_mtp_layers": 2, "num_experts_per_tok": 2, "head_dim": 16}
    served = config("TransformersMoEForCausalLM", "glm4_moe", **keys)
    modules = own_modules(served)
    assert modules is not None
    assert modules.architecture == "TransformersMoEForMTP"
    names = [layer.name for layer in modules.all_layers(served, 4)]
    assert names == [f"model.layers.{k}.mtp_block.self_attn.attn" for k in range(2)]


def test_other_types_have_no_known_modules() -> None:
    served = config("TransformersForCausalLM", "llama", num_mtp_layers=1)
    modules = own_modules(served)
    assert modules is not None
    with pytest.raises(UnplannableError, match="drafting modules of type llama"):
        modules.all_layers(served, 1)
