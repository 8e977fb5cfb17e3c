"""Heads of the whole model as the engine counts them for its parallel rules.

Source: vLLM 0.33.0 ``vllm/transformers_utils/model_arch_config_convertor.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.language import Language
from kvplan_cli.settings.refusal import refuses

# Older names of the attention heads.
_HEAD_KEYS: Final = ("num_attention_heads", "n_head", "n_heads")
# Names of the KV heads, in the engine's order.
_KV_HEAD_KEYS: Final = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
# Config classes that take no null for the attention heads, and the one that has it by default.
# Source: transformers 5.20.2 ``models/*/configuration_*.py``.
_KEEPS_NULL: Final = frozenset(
    {
        "chameleon",
        "emu3_text_model",
        "ernie4_5_moe",
        "ernie4_5_vl_moe_text",
        "glm",
        "nemotron",
        "qwen2_moe",
    }
)
_NULL_BY_DEFAULT: Final = frozenset({"nemotron"})
_FALCON_TYPES: Final = ("falcon", "RefinedWeb", "RefinedWebModel")

# Its config class has heads of its own, which the engine does not look at.
_COHERE_ASR: Final = "cohere_asr"


def check_encoder_heads(config: HfConfig) -> None:
    """Raises EngineRefusalError for Cohere's speech recognition with unlike encoder and decoder."""
    if config.optional_text("model_type") != _COHERE_ASR:
        return
    if config.section("encoder").positive("n_heads") != total_attention_heads(config):
        raise refuses("Encoder and decoder must have the same number of kv heads")


def total_attention_heads(text: HfConfig) -> int:
    """Query heads of the language model; MissingFieldError where only its class knows."""
    if text.optional_text("model_type") == _COHERE_ASR:
        decoder = text.section("transf_decoder").section("config_dict")
        return decoder.positive("num_attention_heads")
    for key in _HEAD_KEYS:
        if text.has(key):
            return text.positive(key)
    return Language.of(text).num_attention_heads


def total_kv_heads(config: HfConfig, text: HfConfig) -> int:
    """KV heads of the language model: the query heads where it states none."""
    model_type = config.optional_text("model_type")
    if model_type in _FALCON_TYPES and _is_multi_query(text):
        return 1
    if model_type == "dbrx":
        return text.section("attn_config").positive("kv_n_heads")
    for key in _KV_HEAD_KEYS:
        if text.has(key):
            return text.positive(key)
    return Language.of(text).num_kv_heads


def check_kv_heads(text: HfConfig) -> None:
    """Raises EngineRefusalError where a config class leaves a null where a number must be."""
    key = "num_key_value_heads"
    model_type = text.optional_text("model_type")
    stated = key in text.values or model_type in _NULL_BY_DEFAULT
    if model_type in _KEEPS_NULL and stated and not text.has(key):
        raise refuses(
            "total_num_kv_heads: Input should be a valid integer",
            way_out=f"give {key} with --hf-overrides",
        )


def _is_multi_query(text: HfConfig) -> bool:
    """Falcon's first generation shares one KV head; its class says so where the file is mute."""
    if text.optional_boolean("new_decoder_architecture"):
        return False
    return text.boolean("multi_query")
