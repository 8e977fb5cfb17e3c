"""Heads, sizes, cache sharing and names, by family.

The expected values were returned by vLLM 0.33.0 for these very configs.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import AttentionKind, OwnCache, WholeModelDims
from tests.models.configs import config, heads, shape, windows, wrapped


@pytest.mark.parametrize(
    ("architecture", "model_type", "keys", "expected"),
    [
        ("LlamaForCausalLM", "llama", {}, (4, 64, 64)),
        ("LlamaForCausalLM", "llama", {"head_dim": 128}, (4, 128, 128)),
        ("LlamaForCausalLM", "llama", {"head_dim": None}, (4, 64, 64)),
        ("LlamaForCausalLM", "llama", {"num_key_value_heads": ...}, (16, 64, 64)),
        # Qwen2 shares the hidden size out whatever head_dim says; Qwen3 does not.
        ("Qwen2ForCausalLM", "qwen2", {"head_dim": 128}, (4, 64, 64)),
        ("Qwen3ForCausalLM", "qwen3", {"head_dim": 128}, (4, 128, 128)),
        ("GPTNeoXForCausalLM", "gpt_neox", {"num_key_value_heads": ...}, (16, 64, 64)),
        (
            "FalconForCausalLM",
            "falcon",
            {"new_decoder_architecture": True, "num_kv_heads": 4},
            (4, 64, 64),
        ),
        ("FalconForCausalLM", "falcon", {"multi_query": False}, (16, 64, 64)),
        ("FalconForCausalLM", "falcon", {}, (1, 64, 64)),
        (
            "ChatGLMModel",
            "chatglm",
            {"multi_query_attention": True, "multi_query_group_num": 2},
            (2, 64, 64),
        ),
        ("ChatGLMModel", "chatglm", {"multi_query_attention": False}, (16, 64, 64)),
        ("DbrxForCausalLM", "dbrx", {"attn_config": {"kv_n_heads": 8}}, (8, 64, 64)),
        ("Step1ForCausalLM", "step1", {"num_attention_groups": 2}, (2, 64, 64)),
        (
            "MiniCPM3ForCausalLM",
            "minicpm3",
            {"qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
            (16, 96, 96),
        ),
    ],
)
def test_heads(
    architecture: str, model_type: str, keys: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    assert {heads(layer) for layer in shape(architecture, model_type, **keys).attention_layers} == {
        expected
    }


@pytest.mark.parametrize(("multi_query", "kv_heads"), [(..., 1), (True, 1), (False, 16)])
def test_bigcode_by_its_own_keys(multi_query: bool, kv_heads: int) -> None:
    given = shape(
        "GPTBigCodeForCausalLM",
        "gpt_bigcode",
        hidden_size=...,
        num_attention_heads=...,
        num_hidden_layers=...,
        n_embd=1024,
        n_head=16,
        n_layer=6,
        multi_query=multi_query,
    )
    assert given.num_hidden_layers == 6
    assert [layer.name for layer in given.attention_layers][:2] == [
        "model.h.0.attn.attn",
        "model.h.1.attn.attn",
    ]
    assert heads(given.attention_layers[0]) == (kv_heads, 64, 64)


def test_gemma3n_shares_with_the_two_layers_before() -> None:
    given = shape(
        "Gemma3nForCausalLM",
        "gemma3n_text",
        head_dim=64,
        num_hidden_layers=15,
        num_kv_shared_layers=6,
        sliding_window=256,
    )
    targets = [layer.kv_sharing_target for layer in given.attention_layers]
    assert targets[:9] == [None] * 9
    full, sliding = (f"model.layers.{index}.self_attn.attn" for index in (8, 7))
    assert targets[9:] == [full, sliding, sliding, sliding, sliding, full]


def test_gemma4_full_layers_are_wider_and_share_by_kind() -> None:
    given = shape(
        "Gemma4ForCausalLM",
        "gemma4_text",
        head_dim=128,
        global_head_dim=256,
        num_global_key_value_heads=2,
        attention_k_eq_v=True,
        num_hidden_layers=12,
        sliding_window=512,
        num_kv_shared_layers=4,
    )
    assert heads(given.attention_layers[0]) == (4, 128, 128)
    assert heads(given.attention_layers[5]) == (2, 256, 256)
    targets = [layer.kv_sharing_target for layer in given.attention_layers[8:]]
    assert targets == [f"model.layers.{index}.self_attn.attn" for index in (7, 7, 7, 5)]


def test_gemma4_last_layer_is_full_and_per_layer_config_wins() -> None:
    given = shape(
        "Gemma4ForCausalLM",
        "gemma4_text",
        head_dim=128,
        sliding_window=512,
        per_layer_config={"05": {"head_dim": 256}},
    )
    assert windows(given.attention_layers) == [512] * 5 + [None, 512, None]
    assert [layer.head_size for layer in given.attention_layers] == [128] * 5 + [256, 128, 128]


def test_more_shared_layers_than_layers_is_a_contradiction() -> None:
    with pytest.raises(InputError, match="num_kv_shared_layers: 9 of 8 layers"):
        shape(
            "Gemma3nForCausalLM",
            "gemma3n_text",
            head_dim=64,
            sliding_window=256,
            num_kv_shared_layers=9,
        )


def test_mimo_v2_has_narrower_values_and_two_kinds_of_heads() -> None:
    given = shape(
        "MiMoV2FlashForCausalLM",
        "mimo_v2_flash",
        head_dim=192,
        v_head_dim=128,
        swa_num_attention_heads=16,
        swa_num_key_value_heads=8,
        swa_head_dim=192,
        swa_v_head_dim=128,
        hybrid_layer_pattern=[0, 1] * 4,
        sliding_window_size=128,
        add_swa_attention_sink_bias=True,
    )
    assert [heads(layer) for layer in given.attention_layers[:2]] == [(4, 192, 128), (8, 192, 128)]
    assert windows(given.attention_layers) == [None, 128] * 4
    assert [layer.has_sink for layer in given.attention_layers[:2]] == [False, True]
    assert given.whole_model == WholeModelDims(
        num_attention_heads=16, num_kv_heads=4, head_size=192
    )


def test_nemotron_nas_leaves_layers_out() -> None:
    blocks = [
        {"attention": {"no_op": index % 3 == 1, "n_heads_in_group": 4 if index % 2 else 8}}
        for index in range(8)
    ]
    given = shape("DeciLMForCausalLM", "nemotron-nas", block_configs=blocks)
    assert [layer.decoder_layer for layer in given.attention_layers] == [0, 2, 3, 5, 6]
    assert [layer.num_kv_heads for layer in given.attention_layers] == [2, 2, 4, 4, 2]
    assert given.num_hidden_layers == 8


def test_inkling_keeps_a_window_of_convolution_inputs() -> None:
    given = model_shape(
        wrapped(
            "InklingForConditionalGeneration",
            "inkling_mm_model",
            "text_config",
            head_dim=64,
            num_hidden_layers=1,
        )
    )
    state, attention = given.attention_layers
    assert state.name == "model.layers.0.conv_state"
    assert heads(state) == (4, 1024, 0)
    assert state.own_cache == OwnCache(backend="INKLING_SCONV_SWA", block_size=4, model_dtype=True)
    assert (attention.name, attention.kind) == ("model.layers.0.attn", AttentionKind.FULL)


def test_hrm_has_a_cache_for_each_round() -> None:
    given = shape(
        "HrmTextForCausalLM",
        "hrm_text",
        head_dim=64,
        H_cycles=2,
        L_cycles=1,
        num_layers_per_stack=2,
    )
    numbers = [int(layer.name.split(".")[3]) for layer in given.attention_layers]
    assert numbers == [0, 4, 1, 5, 2, 6, 3, 7]
    assert all(layer.non_causal for layer in given.attention_layers)


def test_encoder_only() -> None:
    given = shape("LlamaForCausalLM", "llama", is_causal=False)
    assert {layer.kind for layer in given.attention_layers} == {AttentionKind.ENCODER_ONLY}


@pytest.mark.parametrize(
    ("architecture", "model_type", "inner", "name"),
    [
        (
            "LlavaForConditionalGeneration",
            "llava",
            {"model_type": "llama"},
            "language_model.model.layers.7.self_attn.attn",
        ),
        (
            "Blip2ForConditionalGeneration",
            "blip-2",
            {"model_type": "opt"},
            "language_model.model.decoder.layers.7.self_attn.attn",
        ),
        (
            "Idefics3ForConditionalGeneration",
            "idefics3",
            {"model_type": "llama"},
            "model.text_model.layers.7.self_attn.attn",
        ),
        (
            "Cosmos3EdgeForConditionalGeneration",
            "cosmos3_edge",
            {"head_dim": 64},
            "language_model.model.layers.14.mixer.attn",
        ),
        (
            "Step3VLForConditionalGeneration",
            "step3_vl",
            {"architectures": ["Step3TextForCausalLM"], "head_dim": 64},
            "language_model.layers.7.self_attn.attn",
        ),
    ],
)
def test_names_inside_wrappers(
    architecture: str, model_type: str, inner: dict[str, Any], name: str
) -> None:
    given = model_shape(wrapped(architecture, model_type, "text_config", **inner))
    assert given.attention_layers[-1].name == name


def test_decoder_layers_between_attention_layers_count_for_pipeline_stages() -> None:
    given = model_shape(
        wrapped("Cosmos3EdgeForConditionalGeneration", "cosmos3_edge", "text_config", head_dim=64)
    )
    assert given.num_hidden_layers == 16
    assert [layer.decoder_layer for layer in given.attention_layers] == list(range(0, 16, 2))


def test_flat_qwen2_vl() -> None:
    given = model_shape(
        config("Qwen2VLForConditionalGeneration", "qwen2_vl", vision_config={"depth": 2})
    )
    assert given.attention_layers[0].name == "language_model.model.layers.0.self_attn.attn"
    assert heads(given.attention_layers[0]) == (4, 64, 64)
