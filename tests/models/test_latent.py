"""Latent attention: which layers have it, their sizes, and which choose tokens themselves."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError, InputError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.latent import keeps_latent_vectors
from kvplan_cli.models.mla import unfolded
from kvplan_cli.models.registry import find_architecture, model_shape
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    CompressedLayer,
    IndexLayer,
    MLALayer,
    ModelShape,
)
from tests.models.configs import config

R1: dict[str, Any] = {
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
V32: dict[str, Any] = {**R1, "index_topk": 2048, "index_head_dim": 128}


def shape(architecture: str, model_type: str, **keys: Any) -> ModelShape:
    return model_shape(config(architecture, model_type, **keys))


def leaders(layers: tuple[CacheLayer, ...]) -> list[bool]:
    return [layer.is_index_group_leader for layer in layers if isinstance(layer, MLALayer)]


def test_a_vector_and_a_rotary_key() -> None:
    first, *others = shape("DeepseekV3ForCausalLM", "deepseek_v3", **R1).layers
    assert isinstance(first, MLALayer)
    assert (first.name, first.head_size) == ("model.layers.0.self_attn.attn", 576)
    assert (first.is_sparse, first.can_unfold, len(others)) == (False, True, 7)


def test_sizes_are_asked_for() -> None:
    with pytest.raises(MissingFieldError, match="kv_lora_rank"):
        shape("DeepseekV3ForCausalLM", "deepseek_v3", **{**R1, "kv_lora_rank": ...})


@pytest.mark.parametrize(
    ("keys", "latent"),
    [
        ({"model_type": "deepseek_v3"}, True),
        ({"model_type": "deepseek_v3", "kv_lora_rank": None}, False),
        ({"model_type": "deepseek_v3", "is_causal": False}, False),
        ({"model_type": "deepseek_v4"}, True),
        ({"model_type": "llama", "kv_lora_rank": 512}, False),
    ],
)
def test_the_type_decides(keys: dict[str, Any], latent: bool) -> None:
    assert keeps_latent_vectors(HfConfig(keys)) is latent


def test_without_a_vector_each_head_has_its_own_cache() -> None:
    plain = {**R1, "kv_lora_rank": None}
    first, *_ = shape("DeepseekV2ForCausalLM", "deepseek_v2", **plain).layers
    assert isinstance(first, AttentionLayer)
    assert (first.num_kv_heads, first.head_size, first.head_size_v) == (128, 192, 192)


def test_attention_both_ways_caches_nothing() -> None:
    first, *_ = shape(
        "DeepseekV3BidirectionalModel", "deepseek_v3", **R1, is_causal=False
    ).attention_layers
    assert first.kind is AttentionKind.ENCODER_ONLY


def test_switched_off() -> None:
    kept = shape("DeepseekV32ForCausalLM", "deepseek_v32", **V32).layers
    assert tuple(map(unfolded, kept)) == kept
    layer = unfolded(shape("DeepseekV3ForCausalLM", "deepseek_v3", **R1).layers[0])
    assert isinstance(layer, AttentionLayer)
    assert (layer.num_kv_heads, layer.head_size) == (128, 192)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [True] * 8),
        ({"index_topk_pattern": "FSSFSSFS"}, [True, False, False, True, False, False, True, False]),
        (
            {"index_topk_freq": 4, "index_skip_topk_offset": 3},
            [True, True, True, False, False, False, True, False],
        ),
    ],
)
def test_schedules_of_indexers(keys: dict[str, Any], expected: list[bool]) -> None:
    layers = shape("GlmMoeDsaForCausalLM", "glm_moe_dsa", **V32, **keys).layers
    assert leaders(layers) == expected
    assert sum(isinstance(layer, IndexLayer) for layer in layers) == sum(expected)


def test_index_keys_come_first() -> None:
    keys, layer, *_ = shape("DeepseekV32ForCausalLM", "deepseek_v32", **V32).layers
    assert isinstance(keys, IndexLayer)
    assert (keys.name, keys.head_size) == ("model.layers.0.self_attn.indexer.k_cache", 132)
    assert isinstance(layer, MLALayer)
    assert (layer.is_sparse, layer.index_topk) == (True, 2048)


def test_sparse_by_type_needs_its_number() -> None:
    with pytest.raises(MissingFieldError, match="index_topk"):
        shape("DeepseekV32ForCausalLM", "deepseek_v32", **R1)


HY: dict[str, Any] = {**V32, "layer_types": ["indexed_attention"] * 8}


def test_hy_v4_states_its_indexers() -> None:
    types = ["full", "shared"] * 4
    layers = shape("HYV4ForCausalLM", "hy_v4", **HY, indexer_types=types).layers
    assert leaders(layers) == [True, False] * 4
    assert all(layer.has_sink for layer in layers if isinstance(layer, MLALayer))


@pytest.mark.parametrize(
    ("types", "words"),
    [
        (["full"], "expected 8, got 1"),
        (["full"] * 7 + ["half"], r"only supports 'full' and 'shared', got \['half'\]"),
    ],
)
def test_hy_v4_refuses_other_lists(types: list[str], words: str) -> None:
    with pytest.raises(EngineRefusalError, match=words):
        shape("HYV4ForCausalLM", "hy_v4", **HY, indexer_types=types)


def test_longcat_has_two_layers_in_one() -> None:
    flash = {**R1, "num_hidden_layers": ..., "num_layers": 3}
    answer = shape("LongcatFlashForCausalLM", "longcat_flash", **flash)
    assert answer.num_hidden_layers == 3
    assert [layer.name for layer in answer.layers][:3] == [
        "model.layers.0.self_attn.0.attn",
        "model.layers.0.self_attn.1.attn",
        "model.layers.1.self_attn.0.attn",
    ]


V4: dict[str, Any] = {
    "head_dim": 512,
    "sliding_window": 128,
    "index_head_dim": 128,
    "num_hidden_layers": 3,
    "compress_ratios": [0, 4, 128, 0],
}


def test_compressed_layers() -> None:
    answer = shape("DeepseekV4ForCausalLM", "deepseek_v4", **V4)
    assert [layer.name.removeprefix("model.layers.") for layer in answer.layers] == [
        "0.attn.swa_cache",
        "0.attn",
        "1.attn.indexer.k_cache",
        "1.attn.indexer.compressor.state_cache",
        "1.attn.swa_cache",
        "1.attn",
        "1.attn.compressor.state_cache",
        "2.attn.swa_cache",
        "2.attn",
        "2.attn.compressor.state_cache",
    ]
    sizes = [layer.head_size for layer in answer.layers if isinstance(layer, CompressedLayer)]
    assert sizes == [512, 512, 132, 512, 512, 512, 2048, 512, 512, 1024]


def test_kinds_and_rates_say_the_same() -> None:
    kinds = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    by_kinds = {**V4, "compress_ratios": ..., "layer_types": kinds, "compress_rates": rates}
    assert (
        shape("DeepseekV4ForCausalLM", "deepseek_v4", **by_kinds).layers
        == shape("DeepseekV4ForCausalLM", "deepseek_v4", **V4).layers
    )


def test_ratios_must_be_known() -> None:
    with pytest.raises(InputError, match="0, 4 or 128 for each layer"):
        shape("DeepseekV4ForCausalLM", "deepseek_v4", **{**V4, "compress_ratios": [0, 8, 128]})


def test_a_vision_tower_makes_it_another_architecture() -> None:
    sees = {**V4, "vision_n_layers": 2, "vision_max_n_token": 1024}
    traits = find_architecture(config("DeepseekV4ForCausalLM", "deepseek_v4", **sees))
    assert traits.architecture == "DeepseekV4ForConditionalGeneration"
    assert traits.is_mm_prefix_lm
    assert [(item.modality, item.tokens) for item in traits.mm_items] == [("image", 1027)]
    first, *_ = shape("DeepseekV4ForCausalLM", "deepseek_v4", **sees).layers
    assert first.name == "language_model.model.layers.0.attn.swa_cache"


def test_chosen_blocks() -> None:
    blocks = {
        "sparse_attention_freq": [0, 1, 1],
        "sparse_index_dim": 128,
        "sparse_topk_blocks": 16,
    }
    layers = shape(
        "MiniMaxM3SparseForCausalLM",
        "minimax_m3",
        head_dim=128,
        num_hidden_layers=3,
        sparse_attention_config=blocks,
    ).layers
    kinds = [type(layer).__name__ for layer in layers]
    assert kinds == ["AttentionLayer", *["IndexLayer", "AttentionLayer"] * 2]


def test_dots3_note_stores_rows_of_one_width() -> None:
    swa = {
        "swa_num_attention_heads": 64,
        "swa_kv_lora_rank": 1024,
        "swa_qk_rope_head_dim": 64,
        "swa_qk_nope_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window_size": 512,
    }
    kinds = ["full_attention", "sliding_attention"] * 4
    keys, full, slides, *_ = shape(
        "Dots3NoteForCausalLM", "dots3_note", **V32, **swa, layer_types=kinds
    ).layers
    assert isinstance(keys, IndexLayer)
    assert isinstance(full, MLALayer)
    assert isinstance(slides, MLALayer)
    assert full.stored_head_size == slides.head_size == 1088
    assert slides.sliding_window == 512
