"""Layouts of recurrent states: which layers, in which order, and what each keeps."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError, InputError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.recurrent import (
    DeltaAttentionState,
    GatedDeltaState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
    ShortConvState,
)
from kvplan_cli.models.registry import find_architecture, model_shape
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    IndexLayer,
    MLALayer,
    ModelShape,
    RingLayer,
    StateLayer,
)
from tests.models.configs import config, shape, wrapped

MAMBA1 = {"state_size": 16, "conv_kernel": 4, "expand": 2}
D_KEYS = {
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 32,
    "mamba_n_groups": 1,
    "mamba_d_head": "auto",
}
GDN = {
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "head_dim": 256,
}
LATENT = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
NEMOTRON = {
    "mamba_num_heads": 16,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "head_dim": 128,
    "num_hidden_layers": ...,
}
GATED = GatedDeltaState(
    num_k_heads=16, num_v_heads=32, head_k_dim=128, head_v_dim=128, conv_kernel=4
)


def letters(found: ModelShape) -> str:
    """A letter a layer: S a state, A attention, L latent attention, I an index, R a ring."""
    kinds = {StateLayer: "S", AttentionLayer: "A", MLALayer: "L", IndexLayer: "I", RingLayer: "R"}
    return "".join(kinds[type(layer)] for layer in found.layers)


def state_of(found: ModelShape) -> Any:
    states = {layer.state for layer in found.layers if isinstance(layer, StateLayer)}
    assert len(states) == 1
    return states.pop()


@pytest.mark.parametrize(
    ("architecture", "model_type", "keys", "expected", "first", "state"),
    [
        (
            "MambaForCausalLM",
            "mamba",
            MAMBA1,
            "SSSSSSSS",
            "backbone.layers.0.mixer",
            Mamba1State(intermediate_size=2048, state_size=16, conv_kernel=4),
        ),
        (
            "FalconMambaForCausalLM",
            "falcon_mamba",
            {**MAMBA1, "intermediate_size": 8192},
            "SSSSSSSS",
            "backbone.layers.0.mixer",
            Mamba1State(intermediate_size=8192, state_size=16, conv_kernel=4),
        ),
        (
            "Mamba2ForCausalLM",
            "mamba2",
            {**MAMBA1, "n_groups": 8, "num_heads": 32, "head_dim": 64},
            "SSSSSSSS",
            "backbone.layers.0.mixer",
            Mamba2State(
                intermediate_size=2048,
                n_groups=8,
                num_heads=32,
                head_dim=64,
                state_size=16,
                conv_kernel=4,
            ),
        ),
        (
            "JambaForCausalLM",
            "jamba",
            {
                "attn_layer_period": 4,
                "attn_layer_offset": 2,
                "mamba_d_state": 16,
                "mamba_d_conv": 4,
                "mamba_expand": 2,
            },
            "SSASSSAS",
            "model.layers.0.mixer",
            Mamba1State(intermediate_size=2048, state_size=16, conv_kernel=4),
        ),
        (
            "GraniteMoeHybridForCausalLM",
            "granitemoehybrid",
            {**D_KEYS, "layers_block_type": ["mamba"] * 7 + ["attention"]},
            "SSSSSSSA",
            "model.layers.0.mixer",
            Mamba2State(
                intermediate_size=2048,
                n_groups=1,
                num_heads=32,
                head_dim=64,
                state_size=128,
                conv_kernel=4,
            ),
        ),
        (
            "FalconH1ForCausalLM",
            "falcon_h1",
            {**D_KEYS, "mamba_d_ssm": 1024, "mamba_d_head": 32},
            "ASASASASASASASAS",
            "model.layers.0.attn",
            Mamba2State(
                intermediate_size=1024,
                n_groups=1,
                num_heads=32,
                head_dim=32,
                state_size=128,
                conv_kernel=4,
            ),
        ),
        (
            "Lfm2ForCausalLM",
            "lfm2",
            {"conv_dim": 1536, "conv_L_cache": 3, "full_attn_idxs": [2, 5]},
            "SSASSASS",
            "model.layers.0.short_conv",
            ShortConvState(dim=1536, conv_kernel=3),
        ),
        (
            "Lfm2MoeForCausalLM",
            "lfm2_moe",
            {"conv_L_cache": 3, "layer_types": ["conv", "full_attention"] * 4},
            "SASASASA",
            "model.layers.0.short_conv",
            ShortConvState(dim=1024, conv_kernel=3),
        ),
        (
            "Qwen3NextForCausalLM",
            "qwen3_next",
            GDN,
            "SSSASSSA",
            "model.layers.0.linear_attn",
            GATED,
        ),
        (
            "Qwen3NextForCausalLM",
            "qwen3_next",
            {**GDN, "full_attention_interval": 2},
            "SASASASA",
            "model.layers.0.linear_attn",
            GATED,
        ),
        (
            "OlmoHybridForCausalLM",
            "olmo_hybrid",
            {"linear_conv_kernel_dim": 4},
            "SSSASSSA",
            "model.layers.0.linear_attn",
            GatedDeltaState(
                num_k_heads=16,
                num_v_heads=16,
                head_k_dim=48,
                head_v_dim=96,
                conv_kernel=4,
                exports_checkpoints=False,
            ),
        ),
        (
            "BailingMoeV2_5ForCausalLM",
            "bailing_hybrid",
            {**LATENT, "layer_group_size": 3},
            "SSLSSLSS",
            "model.layers.0.self_attn",
            LinearAttentionState(num_heads=16, head_dim=64, norm_groups=1),
        ),
        (
            "BailingMoeV3ForCausalLM",
            "bailing_hybrid",
            {**LATENT, "layer_group_size": 3, "no_kda_lora": True, "short_conv_kernel_size": 4},
            "SSLSSLLL",
            "model.layers.0.self_attn",
            DeltaAttentionState(
                num_heads=16,
                head_dim=64,
                conv_kernel=4,
                layer_reads_dtype=False,
                model_reads_dtype=False,
            ),
        ),
    ],
)
def test_layouts(
    architecture: str,
    model_type: str,
    keys: dict[str, Any],
    expected: str,
    first: str,
    state: object,
) -> None:
    found = shape(architecture, model_type, **keys)
    assert letters(found) == expected
    assert found.layers[0].name == first
    assert state_of(found) == state
    assert found.num_hidden_layers == 8


def test_states_beside_attention_have_numbers_of_their_own() -> None:
    found = shape("FalconH1ForCausalLM", "falcon_h1", **D_KEYS, mamba_d_ssm=None)
    assert [layer.name for layer in found.layers[:4]] == [
        "model.layers.0.attn",
        "model.8.mixer",
        "model.layers.1.attn",
        "model.9.mixer",
    ]
    assert state_of(found).intermediate_size == 2048


def test_the_size_of_a_head_that_a_null_leaves_open() -> None:
    with pytest.raises(MissingFieldError, match="mamba_d_ssm"):
        shape("FalconH1ForCausalLM", "falcon_h1", **D_KEYS)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"hybrid_override_pattern": "M-M*ME"}, "SSAS"),
        ({"layers_block_type": ["mamba", "moe", "attention"]}, "SA"),
        ({"layer_types": ["linear_attention", "full_attention", "mlp"]}, "SA"),
        # The list wins.
        ({"layers_block_type": ["mamba"], "hybrid_override_pattern": "*"}, "S"),
    ],
)
def test_a_pattern_of_layers(keys: dict[str, Any], expected: str) -> None:
    assert letters(shape("NemotronHForCausalLM", "nemotron_h", **NEMOTRON, **keys)) == expected


def test_a_pattern_counts_the_layers_without_a_cache() -> None:
    found = shape("NemotronHForCausalLM", "nemotron_h", **NEMOTRON, hybrid_override_pattern="M-E*")
    assert found.num_hidden_layers == 4
    assert [layer.decoder_layer for layer in found.layers] == [0, 3]
    assert found.layers[1].name == "model.layers.3.mixer.attn"


def test_older_names_of_a_pattern_model_win() -> None:
    older = {"mamba_n_groups": 4, "mamba_d_conv": 3}
    found = shape(
        "NemotronHForCausalLM", "nemotron_h", **NEMOTRON, **older, hybrid_override_pattern="M*"
    )
    assert (state_of(found).n_groups, state_of(found).conv_kernel) == (4, 3)


def test_a_pattern_models_window() -> None:
    found = shape(
        "NemotronHForCausalLM",
        "nemotron_h",
        **NEMOTRON,
        hybrid_override_pattern="M*",
        sliding_window=512,
    )
    (attention,) = found.attention_layers
    assert (attention.kind, attention.sliding_window) == (AttentionKind.SLIDING, 512)


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        ({}, MissingFieldError, "layers_block_type"),
        ({"hybrid_override_pattern": "MX"}, InputError, "hybrid_override_pattern"),
        ({"layers_block_type": ["conv"]}, InputError, "layers_block_type"),
    ],
)
def test_patterns_that_say_nothing(
    keys: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        shape("NemotronHForCausalLM", "nemotron_h", **NEMOTRON, **keys)


def test_shared_blocks_are_built_first() -> None:
    found = shape(
        "Zamba2ForCausalLM",
        "zamba2",
        num_mem_blocks=2,
        mamba_d_state=64,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_ngroups=1,
        n_mamba_heads=8,
        layers_block_type=["mamba", "hybrid"] * 3 + ["mamba", "mamba"],
    )
    names = [layer.name for layer in found.layers]
    # Blocks 0 and 2 are the first one's, block 1 the second one's.
    assert names[:3] == ["model.attn.0", "model.attn.1", "model.attn.2"]
    assert names[3:] == [f"{number}.mixer" for number in range(3, 11)]
    assert found.attention_layers[0].head_size == 128
    assert state_of(found).head_dim == 256
    assert not find_architecture(config("Zamba2ForCausalLM", "zamba2")).supports_pp


def test_a_hybrid_that_has_attention_only() -> None:
    only = {**D_KEYS, "layer_types": ["attention"] * 8}
    assert not find_architecture(
        config("GraniteMoeHybridForCausalLM", "granitemoehybrid", **only)
    ).is_hybrid
    some = {**D_KEYS, "layer_types": ["mamba"] + ["attention"] * 7}
    assert find_architecture(
        config("GraniteMoeHybridForCausalLM", "granitemoehybrid", **some)
    ).is_hybrid


def test_a_wrapper_is_a_hybrid_whatever_is_inside() -> None:
    inner = {**GDN, "layer_types": ["full_attention"] * 8, "model_type": "qwen3_5_text"}
    assert find_architecture(
        wrapped("Qwen3_5ForConditionalGeneration", "qwen3_5", "text_config", **inner)
    ).is_hybrid


def test_states_alone_attend_to_nothing() -> None:
    traits = find_architecture(config("MambaForCausalLM", "mamba"))
    assert traits.is_attention_free
    assert not traits.is_hybrid
    found = shape("MambaForCausalLM", "mamba", **MAMBA1)
    assert found.block_states == ()
    assert found.whole_model is not None
    assert found.whole_model.head_size == 0


@pytest.mark.parametrize(
    ("architecture", "first"),
    [
        ("Qwen3_5ForConditionalGeneration", "language_model.model.layers.0.linear_attn"),
        ("MiniCPMV4_6ForConditionalGeneration", "language_model.model.layers.0.linear_attn"),
        ("Qwen3_5ForCausalLM", "model.layers.0.linear_attn"),
        ("ClefFlashForJointSchema", "language_model.model.layers.0.linear_attn"),
    ],
)
def test_language_parts(architecture: str, first: str) -> None:
    inner = {**GDN, "model_type": "qwen3_5_text"}
    found = model_shape(wrapped(architecture, "qwen3_5", "text_config", **inner))
    assert found.layers[0].name == first
    assert found.block_states == (GATED,)


@pytest.mark.parametrize(
    ("decision", "kind"),
    [
        ({}, AttentionKind.FULL),
        ({"attention_mode": "noncausal_full_attention"}, AttentionKind.ENCODER_ONLY),
    ],
)
def test_a_decision_may_look_both_ways(decision: dict[str, str], kind: AttentionKind) -> None:
    inner = {**GDN, "model_type": "qwen3_5_text"}
    whole = wrapped("D3ForSequenceClassification", "qwen3_5", "text_config", **inner)
    found = model_shape(whole.with_value("decision_config", decision))
    assert {layer.kind for layer in found.attention_layers} == {kind}


@pytest.mark.parametrize(
    ("declared", "kind"),
    [("causal", AttentionKind.FULL), ("bidirectional", AttentionKind.ENCODER_ONLY)],
)
def test_a_contract_decides_how_retrieval_looks(declared: str, kind: AttentionKind) -> None:
    inner = {**GDN, "model_type": "qwen3_5_text", "retrieval_attention_contract": declared}
    found = model_shape(wrapped("ColQwen3_5", "qwen3_5", "text_config", **inner))
    assert {layer.kind for layer in found.attention_layers} == {kind}


@pytest.mark.parametrize(
    ("contracts", "message"),
    [
        ({}, "must declare retrieval_attention_contract"),
        ({"retrieval_attention_contract": "both"}, "unsupported or conflicting"),
    ],
)
def test_contracts_that_the_engine_refuses(contracts: dict[str, str], message: str) -> None:
    inner = {**GDN, "model_type": "qwen3_5_text", **contracts}
    with pytest.raises(EngineRefusalError, match=message):
        model_shape(wrapped("ColQwen3_5", "qwen3_5", "text_config", **inner))


def test_blocks_of_a_seeing_short_convolution_go_by_the_hidden_size() -> None:
    inner = {"conv_dim": 1536, "conv_L_cache": 3, "full_attn_idxs": [2], "model_type": "lfm2"}
    found = model_shape(
        wrapped("Lfm2VlForConditionalGeneration", "lfm2_vl", "text_config", **inner)
    )
    assert found.layers[0].name == "language.model.layers.0.short_conv"
    assert state_of(found).dim == 1536
    assert found.block_states == (ShortConvState(dim=1024, conv_kernel=3),)


def test_whole_sequences_need_no_states() -> None:
    keys = {"conv_dim": 1024, "conv_L_cache": 3, "full_attn_idxs": [2, 5]}
    found = shape("Lfm2BidirectionalModel", "lfm2", **keys)
    assert letters(found) == "AA"
    assert found.layers[0].name == ".layers.2.self_attn.attn"
    traits = find_architecture(config("Lfm2BidirectionalModel", "lfm2", **keys))
    assert (traits.is_hybrid, traits.attn_type) == (False, "encoder_only")


def kimi(**linear: Any) -> ModelShape:
    listed = {
        "kda_layers": [1, 2, 3, 5, 6, 7],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    }
    return shape(
        "KimiLinearForCausalLM", "kimi_linear", **LATENT, linear_attn_config=listed | linear
    )


def test_delta_attention_beside_latent_attention() -> None:
    found = kimi()
    assert letters(found) == "SSSLSSSL"
    assert found.layers[3].name == "model.layers.3.self_attn"
    state = state_of(found)
    assert (state.own_backend, state.layer_reads_dtype, state.exports_checkpoints) == (
        False,
        False,
        False,
    )


@pytest.mark.parametrize(("bound", "exports"), [(-5.0, True), (None, False)])
def test_a_full_rank_gate_is_served_by_kimi_k3(bound: float | None, exports: bool) -> None:
    state = state_of(kimi(use_full_rank_gate=True, gate_lower_bound=bound))
    assert (state.own_backend, state.layer_reads_dtype) == (True, True)
    assert state.exports_checkpoints is exports


def test_bailing_needs_keys_without_lora() -> None:
    with pytest.raises(EngineRefusalError, match="no_kda_lora=True"):
        shape(
            "BailingMoeV3ForCausalLM",
            "bailing_hybrid",
            **LATENT,
            layer_group_size=3,
            short_conv_kernel_size=4,
        )


QSA: dict[str, Any] = {
    "indexer_n_heads": 8,
    "indexer_head_dim": 128,
    "indexer_compress_ratio": 16,
}


def qwen4(architecture: str = "Qwen4ExpForCausalLM", **keys: Any) -> HfConfig:
    inner = {
        **GDN,
        "hidden_size": 2048,
        "hc_count": 4,
        "ple_conv_kernel_size": 4,
        "ngram_size": 3,
        "model_type": "qwen4_exp_text",
        **keys,
    }
    return wrapped(architecture, "qwen4_exp", "text_config", **inner)


def test_an_indexer_of_pooled_keys() -> None:
    found = model_shape(qwen4(**QSA))
    assert letters(found) == "SSSRIASSSRIA"
    ring, index, attention = found.layers[3:6]
    assert isinstance(ring, RingLayer)
    assert isinstance(index, IndexLayer)
    assert isinstance(attention, AttentionLayer)
    assert ring.name == "model.layers.3.self_attn.indexer.raw_key_cache"
    assert (ring.pool, ring.head_size, ring.position_elements) == (16, 128, 0)
    assert (index.tokens_per_state, index.max_tp_shards, index.marked) == (16, None, False)
    assert attention.own_cache is not None
    assert attention.own_cache.backend == "QWEN4_EXP_QSA_TRITON"


def test_raw_keys_keep_positions_of_several_axes() -> None:
    rope = {"rope_type": "default", "mrope_section": [11, 11, 10]}
    seeing = model_shape(qwen4("Qwen4ExpForConditionalGeneration", **QSA, rope_parameters=rope))
    rings = [layer for layer in seeing.layers if isinstance(layer, RingLayer)]
    assert {ring.position_elements for ring in rings} == {12}
    reading = model_shape(qwen4(**QSA, rope_parameters=rope))
    rings = [layer for layer in reading.layers if isinstance(layer, RingLayer)]
    assert {ring.position_elements for ring in rings} == {0}


def test_blocks_hold_the_window_of_an_n_gram_embedding() -> None:
    found = model_shape(qwen4())
    window = ShortConvState(dim=8192, conv_kernel=10, embeds=True)
    assert found.block_states == (state_of(found), window)


def test_without_an_indexer_it_is_plain_attention() -> None:
    found = model_shape(qwen4())
    assert letters(found) == "SSSASSSA"
    assert found.attention_layers[0].own_cache is None


def test_one_connection_is_too_few() -> None:
    with pytest.raises(EngineRefusalError, match="hc_count > 1"):
        model_shape(qwen4(hc_count=1))


GLM = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 0,
    "qk_nope_head_dim": 256,
    "v_head_dim": 256,
    "index_topk": 2048,
    "index_kpool": 16,
    "index_head_dim": 128,
    "linear_num_heads": 64,
    "linear_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def test_pools_and_the_one_that_fills() -> None:
    found = shape("Glm5NextForCausalLM", "glm5_next_text", **GLM)
    assert letters(found) == "SSSIRLSSSIRL"
    index, ring, attention = found.layers[3:6]
    assert isinstance(index, IndexLayer)
    assert isinstance(ring, RingLayer)
    assert isinstance(attention, MLALayer)
    assert (index.head_size, index.tokens_per_state) == (132, 16)
    assert (ring.num_slots, ring.doubling) == (2, True)
    # 2048 tokens and 15 of the pool that fills, in tiles of 128.
    assert (attention.index_topk, attention.head_size) == (2176, 512)
    assert state_of(found).exports_checkpoints


@pytest.mark.parametrize(
    ("keys", "heads", "bounded"),
    [
        ({"linear_lower_bound": None}, 64, False),
        ({"linear_lower_bound": -3.0}, 64, True),
        ({"linear_attn_config": {"num_heads": 32}}, 32, True),
        ({"linear_attn_config": {"num_heads": 32, "safe_gate": False}}, 32, False),
    ],
)
def test_older_files_describe_states_in_a_dictionary(
    keys: dict[str, Any], heads: int, bounded: bool
) -> None:
    state = state_of(shape("Glm5NextForCausalLM", "glm5_next_text", **GLM, **keys))
    assert (state.num_heads, state.exports_checkpoints) == (heads, bounded)


def test_without_an_indexer_latent_attention_is_dense() -> None:
    found = shape("Glm5NextForCausalLM", "glm5_next_text", **{**GLM, "index_topk": None})
    assert letters(found) == "SSSLSSSL"


def test_an_n_gram_embedding_keeps_a_window_before_the_layers_own_state() -> None:
    found = model_shape(qwen4(ple_layer_ids=[2]))
    names = [layer.name for layer in found.layers[:3]]
    assert names == [
        "model.layers.0.linear_attn",
        "model.layers.1.ple",
        "model.layers.1.linear_attn",
    ]
