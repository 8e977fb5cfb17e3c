"""Mistral's own params.json: as a file, in a folder, beside a config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import InputError, MissingFieldError
from kvplan_cli.loader.load import load
from kvplan_cli.loader.mistral_format import adapted
from tests.loader.builders import CONFIG, write_json

PARAMS: dict[str, Any] = {
    "dim": 64,
    "n_layers": 4,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_dim": 16,
    "hidden_dim": 128,
    "norm_eps": 1e-5,
    "vocab_size": 64,
}
VISION = {"vision_encoder": {"hidden_size": 32, "image_size": 64}}
ENCODER = {
    "dim": 32,
    "n_layers": 2,
    "n_heads": 2,
    "head_dim": 16,
    "hidden_dim": 64,
    "vocab_size": 64,
    "sliding_window": 8,
    "audio_encoding_args": {"num_mel_bins": 8},
}


def _audio(**encoder: Any) -> dict[str, Any]:
    args = {"encoder_args": {**ENCODER, **encoder}, "downsample_args": {"downsample_factor": 4}}
    return {**PARAMS, "multimodal": {"whisper_model_args": args}}


def test_general_names_and_the_lengths_that_the_engine_assumes() -> None:
    made = adapted(PARAMS, "params.json")
    assert made["architectures"] == ["MistralForCausalLM"]
    assert (made["hidden_size"], made["num_hidden_layers"]) == (64, 4)
    assert (made["num_attention_heads"], made["num_key_value_heads"]) == (4, 2)
    assert made["max_position_embeddings"] == made["max_seq_len"] == 128_000


@pytest.mark.parametrize(
    ("window", "kinds", "size"),
    [
        (8, ["sliding_attention"] * 4, 8),
        ([8, None], ["sliding_attention", "full_attention"] * 2, 8),
        ([None], ["full_attention"] * 4, None),
    ],
)
def test_windows(window: Any, kinds: list[str], size: int | None) -> None:
    made = adapted({**PARAMS, "sliding_window": window}, "params.json")
    assert (made["layer_types"], made["sliding_window"]) == (kinds, size)


@pytest.mark.parametrize("window", [[8, 4], "8", [8, "4"]])
def test_windows_that_mean_nothing(window: Any) -> None:
    with pytest.raises(InputError, match="sliding_window"):
        adapted({**PARAMS, "sliding_window": window}, "params.json")


def test_an_encoder_makes_another_model_around_the_language_part() -> None:
    sees = adapted({**PARAMS, **VISION}, "params.json")
    assert sees["architectures"] == ["PixtralForConditionalGeneration"]
    assert sees["text_config"]["architectures"] == ["MistralForCausalLM"]
    assert sees["vision_config"] == VISION["vision_encoder"]
    hears = adapted(_audio(), "params.json")
    assert hears["architectures"] == ["VoxtralForConditionalGeneration"]
    assert hears["audio_config"]["block_pool_size"] == 1
    listens = adapted(_audio(causal=True), "params.json")
    assert listens["architectures"] == ["VoxtralRealtimeGeneration"]
    assert listens["audio_config"]["block_pool_size"] == 4


def test_experts_name_the_architecture() -> None:
    few = {**PARAMS, "moe": {"num_experts": 8, "num_experts_per_tok": 2}}
    assert adapted(few, "params.json")["architectures"] == ["MixtralForCausalLM"]
    shared = {**PARAMS, "moe": {"num_experts": 8, "num_shared_experts": 1}}
    with pytest.raises(MissingFieldError, match="llama_4_scaling"):
        adapted(shared, "params.json")
    made = adapted({**shared, "llama_4_scaling": {"beta": 0.1}}, "params.json")
    assert made["architectures"] == ["MistralLarge3ForCausalLM"]
    assert (made["model_type"], made["n_routed_experts"]) == ("deepseek_v3", 8)


def test_quantization_is_the_engine_s() -> None:
    fp8 = {**PARAMS, "quantization": {"qformat_weight": "fp8_e4m3"}, **VISION}
    made = adapted(fp8, "params.json")
    assert made["quantization_config"] == {"quant_method": "fp8", "activation_scheme": "static"}
    with pytest.raises(InputError, match="quantization"):
        adapted({**PARAMS, "quantization": {"qformat_weight": "x"}}, "params.json")


def test_a_file_a_folder_and_the_weights_that_decide(tmp_path: Path) -> None:
    path = write_json(tmp_path / "params.json", PARAMS)
    for place in (path, tmp_path):
        source = load(str(place)).source
        assert source is not None
        assert source.config["architectures"] == ["MistralForCausalLM"]
    # A config.json beside it wins, unless the weights are of Mistral's form, too.
    write_json(tmp_path / "config.json", {**CONFIG, "max_position_embeddings": 777})
    both = load(str(tmp_path)).source
    assert both is not None
    assert both.config["architectures"] == CONFIG["architectures"]
    (tmp_path / "consolidated-00001.safetensors").write_bytes(b"")
    own = load(str(tmp_path)).source
    assert own is not None
    assert own.config["architectures"] == ["MistralForCausalLM"]
    assert own.config["max_position_embeddings"] == 777
