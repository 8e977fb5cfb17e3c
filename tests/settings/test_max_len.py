"""The derived length, what the user asks for, and what the engine says to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.errors import InputError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from tests.settings.builders import POOLS, llama, refused_in, resolved

ALLOW = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}


@pytest.mark.parametrize(
    ("keys", "length"),
    [
        ({}, 131072),
        ({"max_position_embeddings": 4096, "seq_length": 2048, "max_seq_len": 1024}, 1024),
        ({"max_position_embeddings": 4096, "model_max_length": 2048}, 2048),
        ({"max_position_embeddings": 4096, "model_max_length": 8192}, 8192),
        ({"model_type": "gpt2", "max_position_embeddings": ..., "n_positions": 1024}, 1024),
        ({"model_type": "dbrx", "max_position_embeddings": ..., "max_seq_len": 32768}, 32768),
        ({"model_type": "chatglm", "max_position_embeddings": ..., "seq_length": 8192}, 8192),
        ({"model_type": "bloom", "max_position_embeddings": ...}, 2048),
        (
            {"model_type": "whisper", "max_position_embeddings": ..., "max_target_positions": 448},
            448,
        ),
    ],
)
def test_the_smallest_stated_length_counts(keys: dict[str, Any], length: int) -> None:
    assert resolved(llama(**keys)).max_model_len == length


def test_a_length_that_only_the_class_knows_is_asked_for() -> None:
    with pytest.raises(MissingFieldError) as caught:
        resolved(llama(max_position_embeddings=...))
    assert caught.value.field == "max_position_embeddings"


def test_a_length_that_is_no_number_is_wrong_input() -> None:
    with pytest.raises(InputError, match="max_position_embeddings"):
        resolved(llama(max_position_embeddings="8k"))


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        ("default", 32768),
        ("linear", 32768),
        ("dynamic", 32768),
        ("ntk", 32768),
        ("yarn", 8192),
        ("llama3", 8192),
        ("longrope", 8192),
        ("su", 8192),
        ("deepseek_yarn", 8192),
        ("telechat3-yarn", 8192),
    ],
)
@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_rope_kinds_that_stretch(kind: str, length: int, key: str) -> None:
    scaling = {key: kind, "factor": 4.0}
    config = llama(max_position_embeddings=8192, rope_scaling=scaling)
    assert resolved(config).max_model_len == length


@pytest.mark.parametrize(
    ("rope", "length"),
    [
        ({"rope_type": "linear", "factor": 1.5}, 12288),
        ({"rope_type": "linear", "factor": None}, 8192),
        ({"rope_theta": 10000.0}, 8192),
        ({}, 8192),
        (None, 8192),
        ({"full_attention": {"rope_type": "linear", "factor": 2.0}}, 16384),
        (
            {
                "full_attention": {"rope_type": "linear", "factor": 2.0},
                "sliding_attention": {"rope_type": "default"},
            },
            16384,
        ),
        ({"full_attention": None, "sliding_attention": {"rope_type": "default"}}, 8192),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 8192),
    ],
)
def test_rope_sets(rope: dict[str, Any] | None, length: int) -> None:
    config = llama(max_position_embeddings=8192, rope_parameters=rope)
    assert resolved(config).max_model_len == length


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        (
            {"type": "linear", "rope_type": "dynamic", "factor": 2.0},
            "Found conflicts between 'rope_type=dynamic' (modern field) and 'type=linear' "
            "(legacy field). You should only specify one of them.",
        ),
        (
            {"type": "mrope"},
            "Legacy rope_type 'mrope' requires 'mrope_section' in rope_parameters",
        ),
    ],
)
def test_rope_sets_that_the_engine_cannot_read(rope: dict[str, Any], message: str) -> None:
    assert refused_in(llama(rope_scaling=rope)) == message


def test_gemma3_states_its_length_after_scaling() -> None:
    rope = {"rope_type": "linear", "factor": 8.0}
    config = llama(model_type="gemma3_text", rope_parameters=rope)
    assert resolved(config).max_model_len == 131072


@pytest.mark.parametrize(
    ("config", "asked", "length"),
    [
        ({"original_max_position_embeddings": 4096}, None, 4096),
        ({"original_max_position_embeddings": 4096}, -1, 4096),
        ({"original_max_position_embeddings": 4096}, 131072, 131072),
        ({}, None, 131072),
    ],
)
def test_longrope_starts_at_the_original_length(
    config: dict[str, Any], asked: int | None, length: int
) -> None:
    rope = {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}
    settings = resolved(llama(rope_scaling=rope, **config), max_model_len=asked)
    assert settings.max_model_len == length


def test_phi3_has_an_original_length_by_its_class() -> None:
    rope = {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}
    with pytest.raises(MissingFieldError) as caught:
        resolved(llama(model_type="phi3", rope_scaling=rope))
    assert caught.value.field == "original_max_position_embeddings"


def test_auto_is_kept_for_the_fit() -> None:
    settings = resolved(max_model_len=-1)
    assert (settings.max_model_len, settings.original_max_model_len) == (131072, -1)
    assert settings.auto_fit


def test_a_longer_length_is_refused_in_full() -> None:
    assert refused_in(llama(max_position_embeddings=2048), max_model_len=8192) == (
        "User-specified max_model_len (8192) is greater than the derived max_model_len "
        "(max_position_embeddings=2048.0 or model_max_length=None in model's config.json). To "
        "allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution. If the model uses "
        "relative position encoding (RoPE), positions exceeding derived_max_model_len lead to "
        "nan. If the model uses absolute position encoding, positions exceeding "
        "derived_max_model_len will cause a CUDA array out-of-bounds error."
    )


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"max_position_embeddings": 4096, "seq_length": 4096}, "max_position_embeddings=4096.0"),
        ({"max_seq_len": 1024}, "max_seq_len=1024.0"),
        ({"model_max_length": 8192}, "model_max_length=8192.0 or model_max_length=8192 in"),
        (
            {"model_type": "gpt2", "max_position_embeddings": ..., "n_positions": 1024},
            "max_position_embeddings=1024.0",
        ),
        (
            {"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": 4}},
            "max_position_embeddings=32768.0",
        ),
    ],
)
def test_the_refusal_names_the_key(keys: dict[str, Any], named: str) -> None:
    assert f"({named}" in refused_in(llama(**keys), max_model_len=10**8)


def test_the_environment_may_allow_it() -> None:
    assert resolved(max_model_len=10**8, env=ALLOW).max_model_len == 10**8


def test_a_longer_tokenizer_limit_allows_it() -> None:
    config = llama(model_type="phi3", max_position_embeddings=4096, model_max_length=8192)
    assert resolved(config, max_model_len=8192).max_model_len == 8192


@pytest.mark.parametrize("asked", [0, -5])
def test_lengths_that_are_none(asked: int) -> None:
    expected = {
        0: "max_model_len must be a positive integer, got int: 0. Example: max_model_len=2048",
        -5: "max_model_len: Input should be greater than or equal to -1",
    }
    assert refused_in(max_model_len=asked) == expected[asked]


def test_auto_needs_a_limit() -> None:
    bloom = llama(model_type="bloom", max_position_embeddings=...)
    assert resolved(bloom, max_model_len=5000).max_model_len == 5000
    assert refused_in(bloom, max_model_len=-1) == (
        "max_model_len must be a positive integer, got int: -1. Example: max_model_len=2048"
    )


def test_without_its_window_a_model_is_as_long_as_the_window() -> None:
    config = llama(model_type="mistral", sliding_window=512)
    assert resolved(config).max_model_len == 131072
    assert resolved(config, disable_sliding_window=True).max_model_len == 512
    message = refused_in(config, disable_sliding_window=True, max_model_len=1024)
    assert "(sliding_window=512.0 or" in message


@pytest.mark.parametrize("window", [0, None])
def test_no_window_is_no_limit(window: int | None) -> None:
    config = llama(model_type="mistral", sliding_window=window)
    assert resolved(config, disable_sliding_window=True).max_model_len == 131072


def test_sentence_transformers_state_their_own_length() -> None:
    files = {"sentence_bert_config.json": {"max_seq_length": 512}}
    assert resolved(extra_files=files).max_model_len == 512
    message = refused_in(extra_files=files, max_model_len=1024)
    assert "(max_position_embeddings=512 or model_max_length=None in" in message


@pytest.mark.parametrize(
    ("position", "length"), [("absolute", 128), ("rope", 131072), (None, 131072)]
)
def test_the_tokenizer_limits_absolute_positions_of_pooling_models(
    position: str | None, length: int
) -> None:
    config = llama(position_embedding_type=position)
    files = {"tokenizer_config.json": {"model_max_length": 128}}
    assert resolved(config, traits=POOLS, extra_files=files).max_model_len == length
    assert resolved(config, extra_files=files).max_model_len == 131072


def test_the_text_part_has_the_length() -> None:
    text = {"model_type": "llama", "max_position_embeddings": 4096, "num_attention_heads": 32}
    config = HfConfig({"model_type": "llava", "dtype": "bfloat16", "text_config": text})
    assert resolved(config).max_model_len == 4096


@given(stated=st.integers(1, 10**7), asked=st.integers(1, 10**7))
def test_any_length_up_to_the_stated_one_is_taken(stated: int, asked: int) -> None:
    config = llama(max_position_embeddings=stated)
    if asked <= stated:
        assert resolved(config, max_model_len=asked).max_model_len == asked
    else:
        assert f"({asked}) is greater" in refused_in(config, max_model_len=asked)
