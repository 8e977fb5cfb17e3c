"""Which row serves a config: by its names, by a name's ending, by the language part's type.

Source: vLLM 0.33.0 ``model_executor/models/registry.py:_ModelRegistry`` and
``vllm/config/model.py:_SUFFIX_TO_DEFAULTS``, ``vllm/config/vllm.py:with_hf_config``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.base_names import BASE_BY_TYPE

_GENERATE: Final = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
_POOLING: Final = (
    "ForTextEncoding",
    "EmbeddingModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForAudioClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ClassificationModel",
    "ForRewardModeling",
    "RewardModel",
    "Model",
)


def adapted_names(name: str) -> Sequence[str]:
    """The names that the engine tries for a pooling name that it has no class for."""
    for ending in _POOLING:
        if name.endswith(ending):
            return [name.replace(ending, other) for other in (*_GENERATE, *_POOLING)]
    return ()


def whole_names(config: HfConfig) -> Sequence[str]:
    """The architectures of a whole config: as named, else by its type. May be empty."""
    named = config.optional_list("architectures")
    if named:
        if not all(isinstance(name, str) for name in named):
            raise config.wrong("architectures", "a list of names")
        return _rewritten(config, [str(name) for name in named])
    base = BASE_BY_TYPE.get(config.optional_text("model_type") or "")
    return [base] if base else []


def _rewritten(config: HfConfig, names: Sequence[str]) -> Sequence[str]:
    """Models with a vision tower may go by the text model's name; the engine tells them apart.

    Source: vLLM 0.33.0 ``model_arch_config_convertor.py``: ``DeepseekV4ModelArchConfigConvertor``,
    ``MimoV2ModelArchConfigConvertor``.
    """
    model_type = config.optional_text("model_type")
    sees = model_type == "deepseek_v4" and config.optional_integer("vision_n_layers")
    if sees and names == ["DeepseekV4ForCausalLM"]:
        return ["DeepseekV4ForConditionalGeneration"]
    if model_type in ("mimo_v2", "mimo_v2_flash") and config.has("vision_config"):
        return ["MiMoV2OmniForCausalLM"]
    return names


# What the library builds for a language part that names no architecture.
# Source: transformers 5.20.2 ``modeling_auto.py:MODEL_FOR_CAUSAL_LM_MAPPING_NAMES``.
CAUSAL_BY_TYPE: Final[Mapping[str, str]] = {
    "afmoe": "AfmoeForCausalLM",
    "apertus": "ApertusForCausalLM",
    "arcee": "ArceeForCausalLM",
    "bloom": "BloomForCausalLM",
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "cohere2_moe": "Cohere2MoeForCausalLM",
    "cwm": "CwmForCausalLM",
    "dbrx": "DbrxForCausalLM",
    "ernie4_5": "Ernie4_5ForCausalLM",
    "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "exaone_moe": "ExaoneMoeForCausalLM",
    "falcon": "FalconForCausalLM",
    "flex_olmo": "FlexOlmoForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3n_text": "Gemma3nForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "glm": "GlmForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_bigcode": "GPTBigCodeForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "gptj": "GPTJForCausalLM",
    "granite": "GraniteForCausalLM",
    "granite_swa": "GraniteSWAForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM",
    "granitemoe_swa": "GraniteMoeSWAForCausalLM",
    "granitemoeshared": "GraniteMoeSharedForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
    "hunyuan_v1_moe": "HunYuanMoEV1ForCausalLM",
    "hy_v3": "HYV3ForCausalLM",
    "hyperclovax": "HyperCLOVAXForCausalLM",
    "jais2": "Jais2ForCausalLM",
    "kolibri1": "Kolibri1ForCausalLM",
    "laguna": "LagunaForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "mellum": "MellumForCausalLM",
    "mimo_v2_flash": "MiMoV2FlashForCausalLM",
    "minicpm3": "MiniCPM3ForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "nemotron": "NemotronForCausalLM",
    "olmo": "OlmoForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "opt": "OPTForCausalLM",
    "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "stablelm": "StableLmForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "vaultgemma": "VaultGemmaForCausalLM",
}


def part_names(part: HfConfig) -> Sequence[str]:
    """The architectures of a language part: as named, else by its type. May be empty."""
    named = part.optional_list("architectures")
    if named:
        return [str(name) for name in named]
    by_type = CAUSAL_BY_TYPE.get(part.optional_text("model_type") or "")
    return [by_type] if by_type else []
