"""Windows, chunks and their derivation, by family.

The expected values were returned by vLLM 0.33.0 for these very configs.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError, InputError, MissingFieldError
from kvplan_cli.models.shape import AttentionKind
from tests.models.configs import shape, windows

S, F = "sliding_attention", "full_attention"
ALTERNATING = [S, F] * 4


@pytest.mark.parametrize(
    ("architecture", "model_type", "keys", "expected"),
    [
        ("LlamaForCausalLM", "llama", {}, [None] * 8),
        ("LlamaForCausalLM", "llama", {"sliding_window": 1024}, [1024] * 8),
        ("LlamaForCausalLM", "llama", {"sliding_window": 0}, [None] * 8),
        ("MistralForCausalLM", "mistral", {"sliding_window": 2048}, [2048] * 8),
        ("MistralForCausalLM", "mistral", {"sliding_window": None}, [None] * 8),
        (
            "MistralForCausalLM",
            "mistral",
            {"sliding_window": 2048, "layer_types": ALTERNATING},
            [2048, None] * 4,
        ),
        ("Phi3ForCausalLM", "phi3", {"sliding_window": 2047}, [2047] * 8),
        (
            "Qwen2ForCausalLM",
            "qwen2",
            {"use_sliding_window": False, "sliding_window": 1024},
            [None] * 8,
        ),
        (
            "Qwen2ForCausalLM",
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 1024, "max_window_layers": 0},
            [1024] * 8,
        ),
        (
            "Qwen2MoeForCausalLM",
            "qwen2_moe",
            {"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 6},
            [None] * 8,
        ),
        (
            "Gemma2ForCausalLM",
            "gemma2",
            {"head_dim": 64, "sliding_window": 1024, "attn_logit_softcapping": 50.0},
            [1024, None] * 4,
        ),
        (
            "Gemma3ForCausalLM",
            "gemma3_text",
            {"head_dim": 64, "sliding_window": 512, "sliding_window_pattern": 3},
            [512, 512, None, 512, 512, None, 512, 512],
        ),
        (
            "Gemma3ForCausalLM",
            "gemma3_text",
            {"head_dim": 64, "sliding_window": 512, "use_bidirectional_attention": True},
            [257] * 5 + [None] + [257] * 2,
        ),
        (
            "Cohere2ForCausalLM",
            "cohere2",
            {"sliding_window": 512, "sliding_window_pattern": 2},
            [513, None] * 4,
        ),
        (
            "Exaone4ForCausalLM",
            "exaone4",
            {"sliding_window": 512, "sliding_window_pattern": 4},
            ([512] * 3 + [None]) * 2,
        ),
        ("Olmo3ForCausalLM", "olmo3", {"sliding_window": 512}, ([512] * 3 + [None]) * 2),
        (
            "SmolLM3ForCausalLM",
            "smollm3",
            {
                "use_sliding_window": True,
                "sliding_window": 512,
                "no_rope_layers": [1, 0] * 4,
                "pad_token_id": None,
            },
            [None, 512] * 4,
        ),
        # gpt-oss goes by the layer's number, not by its declared kind ...
        (
            "GptOssForCausalLM",
            "gpt_oss",
            {"head_dim": 64, "sliding_window": 128, "layer_types": [F, S] * 4},
            [128, None] * 4,
        ),
        # ... and where all are declared sliding, the model's own window reaches the rest.
        (
            "GptOssForCausalLM",
            "gpt_oss",
            {"head_dim": 64, "sliding_window": 128, "layer_types": [S] * 8},
            [128] * 8,
        ),
        (
            "MellumForCausalLM",
            "mellum",
            {"head_dim": 64, "sliding_window": 512, "layer_types": ALTERNATING},
            [512, None] * 4,
        ),
        ("MellumForCausalLM", "mellum", {"head_dim": 64}, [None] * 8),
        (
            "GraniteForCausalLM",
            "granite",
            {"sliding_window": 256, "layer_types": ALTERNATING},
            [256, None] * 4,
        ),
        (
            "Step3p5ForCausalLM",
            "step3p5",
            {
                "head_dim": 64,
                "sliding_window": 512,
                "layer_types": [*ALTERNATING, S],
                "num_nextn_predict_layers": 1,
            },
            [512, None] * 4,
        ),
        # Falcon's layers are built without the engine's cache settings.
        ("FalconForCausalLM", "falcon", {"sliding_window": 128}, [None] * 8),
    ],
)
def test_windows(
    architecture: str, model_type: str, keys: dict[str, Any], expected: list[int | None]
) -> None:
    layers = shape(architecture, model_type, **keys).attention_layers
    assert windows(layers) == expected
    assert [layer.kind is AttentionKind.SLIDING for layer in layers] == [
        window is not None for window in expected
    ]


@pytest.mark.parametrize(
    ("keys", "full"),
    [
        ({}, [3, 7]),
        ({"no_rope_layer_interval": 3, "no_rope_layers": []}, [2, 5]),
        ({"no_rope_layers": [1, 1, 0, 1, 1, 0, 1, 1]}, [2, 5]),
    ],
)
def test_llama4_chunks(keys: dict[str, Any], full: list[int]) -> None:
    layers = shape(
        "Llama4ForCausalLM", "llama4_text", head_dim=64, attention_chunk_size=512, **keys
    ).attention_layers
    found = [index for index, layer in enumerate(layers) if layer.kind is AttentionKind.FULL]
    assert found == full
    assert {layer.attention_chunk_size for layer in layers} == {512, None}


@pytest.mark.parametrize(
    ("architecture", "model_type", "keys", "field"),
    [
        ("MistralForCausalLM", "mistral", {}, "sliding_window"),
        ("Qwen2ForCausalLM", "qwen2", {"use_sliding_window": True}, "sliding_window"),
        ("Gemma2ForCausalLM", "gemma2", {"head_dim": 64}, "sliding_window"),
        ("Llama4ForCausalLM", "llama4_text", {"head_dim": 64}, "attention_chunk_size"),
        ("Qwen3ForCausalLM", "qwen3", {}, "head_dim"),
        ("Qwen3ForCausalLM", "qwen3", {"num_key_value_heads": ...}, "num_key_value_heads"),
    ],
)
def test_a_class_number_that_the_file_omits_is_asked_for(
    architecture: str, model_type: str, keys: dict[str, Any], field: str
) -> None:
    with pytest.raises(MissingFieldError) as caught:
        shape(architecture, model_type, **keys)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"layer_types": [F] * 7 + ["linear"]}, r"layer_types\[7\]: unknown layer type 'linear'"),
        ({"layer_types": [F] * 7 + [3]}, r"layer_types\[7\]: unknown layer type 3"),
        ({"layer_types": [F] * 7}, "layer_types: 7 entries for num_hidden_layers 8"),
        ({"sliding_window": -1}, "sliding_window: expected an integer of at least 0"),
        ({"num_attention_heads": -4}, "num_attention_heads: expected an integer of at least 1"),
        ({"num_key_value_heads": 0}, "num_key_value_heads: expected an integer of at least 1"),
        ({"hidden_size": 8}, "hidden_size: is smaller than the number of attention heads"),
        ({"num_hidden_layers": "8"}, "num_hidden_layers: expected an integer"),
    ],
)
def test_contradictions_name_the_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        shape("LlamaForCausalLM", "llama", **keys)


def test_a_window_for_some_qwen_layers_is_refused_in_the_engines_words() -> None:
    with pytest.raises(EngineRefusalError) as caught:
        shape(
            "Qwen2ForCausalLM",
            "qwen2",
            use_sliding_window=True,
            sliding_window=1024,
            max_window_layers=4,
        )
    assert caught.value.stage == "model_error"
    assert caught.value.error_type == "AssertionError"
    assert "`max_window_layers` = 4 is less than `num_hidden_layers` = 8" in caught.value.message
