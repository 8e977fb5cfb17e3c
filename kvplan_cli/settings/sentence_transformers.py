"""Length limits that stand in files beside the config, of models that pool.

Source: vLLM 0.33.0 ``vllm/transformers_utils/config.py:get_sentence_transformer_tokenizer_config``
and ``vllm/config/model.py:get_and_verify_max_len``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import RunnerType

TOKENIZER_CONFIG: Final = "tokenizer_config.json"
# In the engine's order: the first file that is there and not empty counts.
SENTENCE_CONFIGS: Final = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)


def encoder_max_length(extra_files: Mapping[str, Any]) -> int | None:
    """``max_seq_length`` in tokens, which replaces the config's length; None for none."""
    for name in SENTENCE_CONFIGS:
        values = extra_files.get(name)
        if isinstance(values, Mapping) and values:
            return HfConfig(values, name).optional_integer("max_seq_length")
    return None


def tokenizer_max_length(
    config: HfConfig, runner: RunnerType, extra_files: Mapping[str, Any]
) -> float | None:
    """The tokenizer's limit in tokens; the engine asks only where positions are absolute."""
    values = extra_files.get(TOKENIZER_CONFIG)
    absolute = config.raw("position_embedding_type") == "absolute"
    if runner is not RunnerType.POOLING or not absolute or not isinstance(values, Mapping):
        return None
    return HfConfig(values, TOKENIZER_CONFIG).optional_number("model_max_length")
