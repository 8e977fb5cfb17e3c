"""Decoders that mix sliding or chunked layers with full ones, beside Gemma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, rows
from kvplan_cli.models.flags import (
    always_sink,
    granite_sink,
    laguna_sink,
    mimo_sink,
)
from kvplan_cli.models.heads import Heads, grouped_heads, split_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.reach import (
    FULL_REACH,
    Reach,
    alternating,
    by_layer_types,
    by_layer_types_alone,
    by_layer_types_inclusive,
    chunked_with_rope,
    window_list,
    window_reach,
)
from kvplan_cli.models.shape import AttentionKind, WholeModelDims


def mimo_reach(language: Language) -> Sequence[Reach]:
    """MiMo-V2: ``hybrid_layer_pattern`` has a 1 for each sliding layer."""
    pattern = language.config.list("hybrid_layer_pattern")
    if len(pattern) < language.num_hidden_layers or any(p not in (0, 1) for p in pattern):
        raise language.config.wrong("hybrid_layer_pattern", "a 0 or 1 for each layer")
    window = language.config.integer("sliding_window_size", minimum=-1)
    sliding = FULL_REACH if window < 0 else window_reach(window)
    used = pattern[: language.num_hidden_layers]
    return [sliding if slides else FULL_REACH for slides in used]


def mimo_heads(language: Language, index: int, reach: Reach) -> Heads:
    """MiMo-V2: sliding layers have heads of their own; values may be narrower than keys.

    Source: vLLM 0.33.0 ``models/mimo_v2.py:MiMoV2FlashDecoderLayer``.
    """
    config = language.config
    if not config.list("hybrid_layer_pattern")[index]:
        return Heads(
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=language.num_kv_heads,
            head_size=config.positive("head_dim"),
            head_size_v=config.optional_integer("v_head_dim", minimum=1),
        )
    return Heads(
        num_attention_heads=config.positive("swa_num_attention_heads"),
        num_kv_heads=config.positive("swa_num_key_value_heads"),
        head_size=config.positive("swa_head_dim"),
        head_size_v=config.optional_integer("swa_v_head_dim", minimum=1),
    )


def config_dims(language: Language) -> WholeModelDims | None:
    """The config's own heads, where some layers have others."""
    return WholeModelDims(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads,
        head_size=language.head_dim,
    )


def laguna_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Laguna: ``num_attention_heads_per_layer`` may give each layer its query heads."""
    heads = grouped_heads(language, index, reach)
    listed = language.config.optional_list("num_attention_heads_per_layer")
    if listed is None:
        return heads
    if len(listed) != language.num_hidden_layers or not all(
        isinstance(count, int) and count > 0 for count in listed
    ):
        raise language.config.wrong("num_attention_heads_per_layer", "heads for each layer")
    return Heads(
        num_attention_heads=listed[index],
        num_kv_heads=heads.num_kv_heads,
        head_size=heads.head_size,
    )


def step_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Step 3.5: sliding layers may have another number of query heads.

    Source: transformers 5.20.2 ``configuration_step3p7.py:Step3p7TextConfig``.
    """
    config, heads = language.config, language.num_attention_heads
    kinds = config.optional_list("layer_types") or ()
    # By its declared type: a layer whose window was disabled keeps its heads.
    if reach.kind is AttentionKind.SLIDING or list(kinds[index : index + 1]) == [SLIDING]:
        other = config.optional_section("attention_other_setting")
        own = config.optional_integer("num_sliding_attention_heads", minimum=1)
        if own is None and other is not None:
            own = other.optional_integer("num_attention_heads", minimum=1)
        heads = own or heads
    # The class knows num_attention_groups as another name of num_key_value_heads.
    groups = config.optional_integer("num_attention_groups", minimum=1)
    return Heads(
        num_attention_heads=heads,
        num_kv_heads=language.num_kv_heads if groups is None else groups,
        head_size=language.head_dim,
    )


WINDOWED: Final = Decoder(reach=by_layer_types)
COHERE: Final = Decoder(reach=by_layer_types_inclusive)
MIMO_V2: Final = Decoder(heads=mimo_heads, reach=mimo_reach, sink=mimo_sink, dims=config_dims)
GRANITE_MOE: Final = Decoder(heads=split_heads, reach=by_layer_types, sink=granite_sink)
LAGUNA: Final = Decoder(
    heads=laguna_heads, reach=by_layer_types_alone, sink=laguna_sink, dims=config_dims
)
STEP: Final = Decoder(heads=step_heads, reach=by_layer_types_alone)

ROWS: Final[Sequence[Architecture]] = (
    *rows(
        WINDOWED,
        "AfmoeForCausalLM",
        "Exaone4ForCausalLM",
        "ExaoneMoEForCausalLM",
        "ExaoneMoeForCausalLM",
    ),
    *rows(Decoder(reach=by_layer_types_alone), "BeamForCausalLM"),
    *rows(Decoder(heads=split_heads), "CohereForCausalLM"),
    *rows(
        Decoder(heads=split_heads, reach=by_layer_types_inclusive),
        "Cohere2ForCausalLM",
    ),
    *rows(COHERE, "Cohere2MoeForCausalLM"),
    *rows(
        Decoder(
            layer_name="model.layers.{}.attn.attn",
            reach=alternating,
            sink=always_sink,
        ),
        "GptOssForCausalLM",
    ),
    *rows(
        Decoder(reach=by_layer_types, sink=granite_sink),
        "GraniteForCausalLM",
        "GraniteSWAForCausalLM",
    ),
    *rows(
        GRANITE_MOE,
        "GraniteMoeForCausalLM",
        "GraniteMoeSWAForCausalLM",
        "GraniteMoeSharedForCausalLM",
    ),
    *rows(LAGUNA, "LagunaForCausalLM"),
    *rows(Decoder(reach=chunked_with_rope), "Llama4ForCausalLM"),
    *rows(MIMO_V2, "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
    *rows(
        Decoder(
            layer_name="model.layers.layers.{}.mixer.attn",
            reach=window_list("interleaved_sliding_window"),
        ),
        "Plamo3ForCausalLM",
    ),
    *rows(STEP, "Step3p5ForCausalLM"),
)
