"""Decoders with layer rules of their own."""

from __future__ import annotations

import pytest

from kvplan_cli.errors import InputError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.registry import find_architecture, model_shape
from kvplan_cli.models.shape import AttentionKind, AttentionLayer
from tests.models.configs import config, heads, shape, windows


def attention(layers: tuple[object, ...]) -> tuple[AttentionLayer, ...]:
    return tuple(layer for layer in layers if isinstance(layer, AttentionLayer))


def test_rnj_slides_where_it_says_chunked() -> None:
    kinds = ["chunked_attention", "full_attention"] * 4
    given = shape(
        "Rnj1ForCausalLM", "gemma3_text", head_dim=64, sliding_window=512, layer_types=kinds
    )
    assert windows(attention(given.layers)) == [512, None] * 4


def test_pangu_repeats_its_windows() -> None:
    given = shape("PanguEmbeddedForCausalLM", "pangu", interleaved_sliding_window=[128, None, 64])
    assert windows(attention(given.layers)) == [128, None, 64] * 2 + [128, None]
    with pytest.raises(InputError, match="interleaved_sliding_window"):
        shape("PanguEmbeddedForCausalLM", "pangu", interleaved_sliding_window=["wide"])


def test_pangu_with_sinks_has_keys_in_two_parts() -> None:
    given = shape(
        "PanguProMoEV2ForCausalLM",
        "pangu",
        param_sink_number=128,
        qk_nope_dim=96,
        qk_rope_dim=32,
        v_channels=64,
    )
    layers = attention(given.layers)
    assert {layer.kind for layer in layers} == {AttentionKind.STATIC_SINK}
    assert {layer.sink_len for layer in layers} == {128}
    assert heads(layers[0]) == (4, 128, 64)


def test_domyn_counts_the_token_itself() -> None:
    pairs = [[511, 0], [0, 0], [-1, -1], [127, 0]] * 2
    given = shape("DomynEdgeForCausalLM", "domyn", window_sizes=pairs)
    assert windows(attention(given.layers)) == [512, None, None, 128] * 2


@pytest.mark.parametrize(("mode", "count"), [("per_loop", 4 + 2 * 3), ("last_loop", 4 + 2)])
def test_dory_has_a_cache_a_round(mode: str, count: int) -> None:
    given = shape(
        "DoryForCausalLM",
        "dory",
        num_hidden_layers=12,
        head_dim=64,
        sliding_window=256,
        n_input_layers=4,
        n_recurrent_layers=4,
        n_output_layers=4,
        n_recurrent_loops=3,
        recurrent_kv_cache_mode=mode,
    )
    layers = attention(given.layers)
    assert len(layers) == count
    assert layers[3].name == (
        "backbone.layers.6.mixer.attn" if mode == "last_loop" else "backbone.layers.16.mixer.attn"
    )


def test_moondream_keeps_its_parts_one_section_deeper() -> None:
    text = {"dim": 512, "n_layers": 4, "n_heads": 8, "n_kv_heads": 2}
    values = {
        "architectures": ["Moondream3ForCausalLM"],
        "model_type": "moondream3",
        "config": {"text": text},
    }
    layers = attention(model_shape(HfConfig(values)).layers)
    assert layers[0].name == "text.blocks.0.attn.attn"
    assert heads(layers[0]) == (2, 64, 64)
    assert layers[0].mm_prefix


@pytest.mark.parametrize("parts", [None, {}, {"skills": ["query"]}])
def test_moondreams_class_knows_what_the_file_does_not_say(parts: object) -> None:
    values = {"architectures": ["HfMoondream"], "model_type": "moondream3", "config": parts}
    layers = attention(model_shape(HfConfig(values)).layers)
    assert len(layers) == 24
    assert heads(layers[0]) == (32, 64, 64)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("GPTNeoForCausalLM", {}),
        ("NobodysForCausalLM", {"auto_map": {"AutoModelForCausalLM": "modeling.Nobody"}}),
        ("NobodysDecoder", {}),
    ],
)
def test_what_kvplan_does_not_know_is_not_refused_for_the_engine(
    name: str, keys: dict[str, object]
) -> None:
    with pytest.raises(UnplannableError):
        find_architecture(config(name, "nobody", **keys))
