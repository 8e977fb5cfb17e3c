"""What the ``transformers`` config classes make of keys that a file omits or switches off.

One row a ``model_type``. Numbers of the classes are not repeated here: where the default is a
number, the row says ``Absent.ASK`` and the reader raises MissingFieldError.
Source: transformers 5.20.2 ``models/*/configuration_*.py``, and vLLM 0.33.0
``vllm/transformers_utils/configs`` for the classes that the engine brings itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.layer_types import (
    LayerTypes,
    all_full,
    all_sliding,
    attention_at_indices,
    attention_at_offset,
    declared,
    declared_as,
    declared_with_drafts,
    dense_prefix,
    every,
    every_from_first,
    every_from_last,
    exaone_pattern,
    first_and_every,
    gated_alternating,
    gated_tail,
    global_then_local,
    indexed_between,
    indexed_in_fours,
    linear_between,
    linear_between_or_before,
    linear_every_other,
    linear_unless_declared,
    llama4_chunks,
    nope_windows,
    short_convolutions,
)
from kvplan_cli.values import dataclass

WindowField = Callable[[HfConfig], int | None]


class Absent(Enum):
    """What a key means that the file does not have."""

    DERIVED = "derived"
    ASK = "ask"


def optional_window(config: HfConfig) -> int | None:
    """``sliding_window``; an absent one is none."""
    return config.optional_integer("sliding_window", minimum=0)


def required_window(config: HfConfig) -> int | None:
    """``sliding_window`` of a class with a number of its own."""
    return config.nullable_integer("sliding_window", minimum=0)


def gated_window(config: HfConfig) -> int | None:
    """Qwen's window counts only with ``use_sliding_window``, which is off by default."""
    if not config.optional_boolean("use_sliding_window"):
        return None
    return required_window(config)


def window_unless_off(config: HfConfig) -> int | None:
    """A window that ``use_sliding_window`` may switch off; it is on by default."""
    if config.optional_boolean("use_sliding_window") is False:
        return None
    return required_window(config)


def bidirectional_window(config: HfConfig) -> int | None:
    """Gemma's window, halved for a model that attends both ways."""
    window = required_window(config)
    if window is not None and config.raw("use_bidirectional_attention") in (True, "all"):
        return window // 2 + 1
    return window


def step_window(config: HfConfig) -> int | None:
    """MiMo-V2 gives its window without the token itself under another name."""
    size = config.optional_integer("sliding_window_size", minimum=0)
    return required_window(config) if size is None else size + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigClass:
    """A config class's treatment of the keys that layers are built from.

    num_key_value_heads: DERIVED, an absent one means the attention heads.
    head_dim: DERIVED, an absent one means hidden size over heads.
    sliding_window: the window in tokens, None or 0 for none. layer_types: from config, number
    of layers and window to one kind a layer. aliases: older keys of a name, first one wins.
    is_encoder_decoder: what the class says where the file is mute.
    """

    num_key_value_heads: Absent = Absent.DERIVED
    head_dim: Absent = Absent.DERIVED
    sliding_window: WindowField = optional_window
    layer_types: LayerTypes = declared
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_encoder_decoder: bool = False


_ASK: Final = Absent.ASK
_GPT_NAMES: Final = {
    "num_hidden_layers": ("n_layer",),
    "num_attention_heads": ("n_head",),
    "hidden_size": ("n_embd",),
}
_BLOOM_NAMES: Final = {**_GPT_NAMES, "hidden_size": ("n_embed",)}

_PLAIN: Final = ConfigClass()
_HUNYUAN_VL: Final = ConfigClass(aliases={"head_dim": ("attention_head_dim",)})
_KV_ASKED: Final = ConfigClass(num_key_value_heads=_ASK)
_HEADS_ASKED: Final = ConfigClass(num_key_value_heads=_ASK, head_dim=_ASK)
_GPT: Final = ConfigClass(aliases=_GPT_NAMES)
_BLOOM: Final = ConfigClass(aliases=_BLOOM_NAMES)
_QWEN2: Final = ConfigClass(
    num_key_value_heads=_ASK, sliding_window=gated_window, layer_types=gated_tail
)
_QWEN3: Final = ConfigClass(
    num_key_value_heads=_ASK, head_dim=_ASK, sliding_window=gated_window, layer_types=gated_tail
)
_GATED_DELTA: Final = ConfigClass(
    num_key_value_heads=_ASK, head_dim=_ASK, layer_types=linear_between
)


def _windowed(
    layer_types: LayerTypes,
    *,
    window: WindowField = required_window,
    kv_heads: Absent = _ASK,
    head_dim: Absent = _ASK,
) -> ConfigClass:
    return ConfigClass(
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        sliding_window=window,
        layer_types=layer_types,
    )


_DERIVED: Final = Absent.DERIVED
_EXAONE: Final = _windowed(exaone_pattern, head_dim=_DERIVED)
_GEMMA4: Final = _windowed(every(6, last_full=True), window=bidirectional_window)
_GRANITE: Final = every_from_first(4)
_NEMOTRON_H: Final = ConfigClass(
    num_key_value_heads=_ASK,
    head_dim=_ASK,
    aliases={
        "conv_kernel": ("mamba_d_conv",),
        "layers_block_type": ("layers_block_type", "layer_types"),
        "n_groups": ("mamba_n_groups",),
    },
)

CONFIG_CLASSES: Final[Mapping[str, ConfigClass]] = {
    "afmoe": _windowed(every(4, "global_attn_every_n_layers"), kv_heads=_DERIVED),
    "bamba": _windowed(attention_at_indices, window=optional_window, head_dim=_DERIVED),
    "beam": _windowed(all_sliding),
    "bloom": _BLOOM,
    "chatglm": ConfigClass(aliases={"num_hidden_layers": ("num_layers",)}),
    "cohere2": _windowed(every(4, "sliding_window_pattern"), kv_heads=_DERIVED),
    "cohere2_moe": _windowed(dense_prefix, kv_heads=_DERIVED),
    "cosmos3_edge_text": _HEADS_ASKED,
    "cwm": _windowed(every_from_first(4)),
    "dbrx": ConfigClass(
        aliases={
            "num_hidden_layers": ("n_layers",),
            "num_attention_heads": ("n_heads",),
            "hidden_size": ("d_model",),
        }
    ),
    "diffusion_gemma_text": _GEMMA4,
    "dory": _windowed(declared),
    "dots_ocr": _QWEN2,
    "embedding_gemma2_text": _GEMMA4,
    "emu3_text_model": _KV_ASKED,
    "ernie4_5": _HEADS_ASKED,
    "ernie4_5_moe": _KV_ASKED,
    "ernie4_5_vl_moe_text": _KV_ASKED,
    "exaone": ConfigClass(aliases={"num_hidden_layers": ("num_layers",)}),
    "exaone4": _EXAONE,
    "exaone_moe": _EXAONE,
    "flint": _windowed(all_full, window=window_unless_off),
    "falcon": ConfigClass(aliases={"hidden_size": ("n_embed",)}),
    "falcon_h1": _KV_ASKED,
    "gemma": _HEADS_ASKED,
    "gemma2": _windowed(every(2)),
    "gemma3_text": _windowed(every(6, "sliding_window_pattern"), window=bidirectional_window),
    "gemma3n_text": _windowed(every(5)),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "glm": _HEADS_ASKED,
    "glm4": _HEADS_ASKED,
    "glm4_moe": _KV_ASKED,
    "glm4v_moe_text": _KV_ASKED,
    "glm4v_text": _KV_ASKED,
    "glm5_next_text": ConfigClass(layer_types=indexed_in_fours),
    "glm_ocr_text": _KV_ASKED,
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_oss": _windowed(every(2)),
    "gptj": _GPT,
    "granite_swa": _windowed(_GRANITE, head_dim=_DERIVED),
    "granitemoe_swa": _windowed(_GRANITE, kv_heads=_DERIVED, head_dim=_DERIVED),
    "granitemoehybrid": ConfigClass(layer_types=linear_unless_declared),
    "hunyuan_vl": _HUNYUAN_VL,
    "hunyuan_vl_text": _HUNYUAN_VL,
    "hrm_text": ConfigClass(head_dim=_ASK),
    "inkling_model": _KV_ASKED,
    "inkling_text": _KV_ASKED,
    "jamba": ConfigClass(num_key_value_heads=_ASK, layer_types=attention_at_offset),
    "kolibri1": _windowed(every(5)),
    "laguna": _windowed(all_full),
    "lfm2": ConfigClass(num_key_value_heads=_ASK, layer_types=short_convolutions),
    "lfm2_moe": _KV_ASKED,
    "llama4_text": _windowed(llama4_chunks, window=optional_window),
    "mellum": _windowed(all_full),
    # Where the engine asks for heads and width of such a decoder, its class answers with the
    # encoder's.
    "mbart": ConfigClass(
        aliases={
            "num_hidden_layers": ("decoder_layers",),
            "num_attention_heads": ("encoder_attention_heads",),
            "hidden_size": ("d_model",),
        },
        is_encoder_decoder=True,
    ),
    "mimo_v2_flash": _windowed(first_and_every(6), window=step_window),
    "minicpm3": _KV_ASKED,
    "minimax_m2": _HEADS_ASKED,
    "minimax": _windowed(linear_every_other, window=optional_window, head_dim=_DERIVED),
    "modernbert": ConfigClass(layer_types=global_then_local),
    "nomic_bert": ConfigClass(aliases=_GPT_NAMES),
    "ministral": _windowed(all_sliding, head_dim=_DERIVED),
    "ministral3": _HEADS_ASKED,
    "mistral": _windowed(declared, head_dim=_DERIVED),
    "mixtral": _KV_ASKED,
    "muse_glimmer_text": _windowed(every_from_last(4)),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_puzzle": _NEMOTRON_H,
    "olmo3": _windowed(every(4), kv_heads=_DERIVED, head_dim=_DERIVED),
    "olmo_hybrid": ConfigClass(layer_types=linear_between_or_before),
    "paddleocr_vl": _HEADS_ASKED,
    "paddleocr_vl_text": _HEADS_ASKED,
    "phimoe": _KV_ASKED,
    "qwen2": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": _windowed(gated_alternating, window=gated_window, head_dim=_DERIVED),
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_5_moe_text": _GATED_DELTA,
    "qwen3_5_text": _GATED_DELTA,
    "qwen3_moe": _windowed(declared, window=gated_window, head_dim=_DERIVED),
    "qwen3_next": _GATED_DELTA,
    "qwen3_omni_moe_text": _windowed(declared, window=gated_window, head_dim=_DERIVED),
    "qwen3_vl_moe_text": _KV_ASKED,
    "qwen3_vl_text": _HEADS_ASKED,
    "qwen4_exp_text": ConfigClass(
        num_key_value_heads=_ASK, head_dim=_ASK, layer_types=indexed_between
    ),
    "RefinedWeb": _BLOOM,
    "RefinedWebModel": _BLOOM,
    "seed_oss": _HEADS_ASKED,
    "smollm3": ConfigClass(num_key_value_heads=_ASK, layer_types=nope_windows),
    "stablelm": _KV_ASKED,
    "starcoder2": _KV_ASKED,
    "step3p5": _windowed(declared_with_drafts, window=optional_window),
    "step5": _windowed(
        declared_with_drafts, window=optional_window, kv_heads=_DERIVED, head_dim=_DERIVED
    ),
    "step3p7_text": _windowed(declared_with_drafts, window=optional_window),
    "ultrabert": _windowed(every(3), kv_heads=_DERIVED, head_dim=_DERIVED),
    "telechat": ConfigClass(
        aliases={"num_hidden_layers": ("n_layer",), "num_attention_heads": ("n_head",)}
    ),
    "vaultgemma": _windowed(every(2)),
    "whisper": ConfigClass(
        aliases={
            "num_hidden_layers": ("encoder_layers",),
            "num_attention_heads": ("encoder_attention_heads",),
            "hidden_size": ("d_model",),
        }
    ),
    "zamba2": ConfigClass(layer_types=declared_as("layers_block_type")),
}


def config_class(model_type: str | None) -> ConfigClass:
    """The row of ``model_type``; without one, the file's values stand as they are."""
    return CONFIG_CLASSES.get(model_type or "", _PLAIN)
