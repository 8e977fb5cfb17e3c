"""What latent attention reads of a language config, and which configs have it.

Source: vLLM 0.33.0 ``vllm/transformers_utils/model_arch_config_convertor.py:is_deepseek_mla``
and ``vllm/config/model.py:use_mla``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import MLALayer

_LATENT_TYPES: Final = frozenset(
    {
        "axk1",
        "bailing_hybrid",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "dots3_note",
        "glm4_moe_lite",
        "glm5_next",
        "glm5_next_text",
        "glm_moe_dsa",
        "hy_v4",
        "k3_dspark",
        "kimi_k2",
        "kimi_linear",
        "longcat_flash",
        "pangu_ultra_moe",
        # The engine has it by the Transformers library's class only, which goes by the sizes.
        "youtu",
    }
)
_COMPRESSED_TYPES: Final = frozenset({"deepseek_v4", "deepseek_v41"})


def keeps_latent_vectors(text: HfConfig) -> bool:
    """Whether the engine takes a language config for one of latent attention.

    It goes by the type; an explicit null for the vector's size switches it off. Models that
    attend both ways unfold the vectors.
    """
    if text.optional_boolean("is_causal") is False:
        return False
    model_type = text.optional_text("model_type")
    if model_type in _COMPRESSED_TYPES:
        return True
    unfolded = "kv_lora_rank" in text.values and not text.has("kv_lora_rank")
    return model_type in _LATENT_TYPES and not unfolded


def latent_layer(
    language: Language, index: int, name: str, *, index_topk: int | None = None
) -> MLALayer:
    """A dense layer of the sizes that the config states for all.

    name: the layer's, with ``{}`` for its number. index_topk: width of the shared choice.
    """
    config = language.config
    return MLALayer(
        name=name.format(index),
        decoder_layer=index,
        num_attention_heads=language.num_attention_heads,
        kv_lora_rank=config.positive("kv_lora_rank"),
        qk_rope_head_dim=config.integer("qk_rope_head_dim"),
        qk_nope_head_dim=config.positive("qk_nope_head_dim"),
        v_head_dim=config.positive("v_head_dim"),
        index_topk=index_topk,
    )
