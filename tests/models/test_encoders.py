"""Encoders without a cache, and decoders that read an encoder's output."""

from __future__ import annotations

import pytest

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.registry import find_architecture, model_shape
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, RunnerType
from tests.models.configs import config, shape

WHISPER = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "d_model": 512,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_layers": 3,
    "decoder_attention_heads": 8,
}


def attention(layers: tuple[object, ...]) -> list[AttentionLayer]:
    return [layer for layer in layers if isinstance(layer, AttentionLayer)]


def test_whisper_caches_its_own_tokens_and_the_encoders_states() -> None:
    given = model_shape(HfConfig(WHISPER))
    layers = attention(given.layers)
    assert [layer.kind for layer in layers] == [AttentionKind.FULL, AttentionKind.CROSS] * 3
    assert layers[3].name == ".decoder.layers.1.layers.encoder_attn.attn"
    assert {(layer.num_kv_heads, layer.head_size) for layer in layers} == {(8, 64)}
    # The engine takes the encoder's heads for the model's.
    assert given.whole_model is not None
    assert given.whole_model.num_attention_heads == 4


@pytest.mark.parametrize(("stated", "expected"), [(None, True), (True, True), (False, False)])
def test_an_encoder_decoder_is_what_its_config_says(stated: bool | None, expected: bool) -> None:
    values = WHISPER if stated is None else {**WHISPER, "is_encoder_decoder": stated}
    assert find_architecture(HfConfig(values)).is_encoder_decoder is expected


@pytest.mark.parametrize(
    ("architecture", "model_type", "pooling", "attn_type"),
    [
        ("BertModel", "bert", "CLS", "decoder"),
        ("RobertaForTokenClassification", "roberta", "LAST", "encoder_only"),
        ("XLMRobertaModel", "xlm-roberta", "CLS", "decoder"),
    ],
)
def test_bert_kin_keep_nothing(
    architecture: str, model_type: str, pooling: str, attn_type: str
) -> None:
    traits = find_architecture(config(architecture, model_type))
    assert traits.runner_type is RunnerType.POOLING
    assert not traits.supports_pp
    assert (traits.default_seq_pooling_type, traits.attn_type) == (pooling, attn_type)
    layers = attention(shape(architecture, model_type).layers)
    assert {layer.kind for layer in layers} == {AttentionKind.ENCODER_ONLY}
    assert {layer.num_kv_heads for layer in layers} == {16}


def test_modern_bert_ignores_the_cache_config() -> None:
    layers = attention(shape("ModernBertModel", "modernbert", local_attention=128).layers)
    assert all(layer.ignores_cache_config for layer in layers)
    assert [layer.kind for layer in layers] == [AttentionKind.ENCODER_ONLY] * 8
