"""Which config class reads a language part: some classes decide it over the part's own word.

Source: vLLM 0.33.0 ``vllm/transformers_utils/configs/{funaudiochat,isaac,moondream3}.py`` and
``models/moss_audio.py:MossAudioConfig``; the classes of MiniCPM-V and -O stand in the
checkpoints' code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig

_ALWAYS: Final[Mapping[str, str]] = {
    "deepseek_v41": "deepseek_v41",
    "isaac": "qwen3",
    "moondream3": "moondream3_text",
    "moss_audio": "qwen3",
}
# Where the part does not say.
_DEFAULTS: Final[Mapping[str, str]] = {"funaudiochat": "qwen2"}
# Flat configs whose class derives from another, by type and version.
_BY_VERSION: Final[Mapping[str, Mapping[str, str]]] = {
    "minicpmo": {"2.6": "qwen2", "4.5": "qwen3"},
    "minicpmv": {"2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"},
}
# Keys of the whole that its class keeps from a flat language part.
_KEPT: Final[Mapping[str, str]] = {"isaac": "max_sequence_length"}


def as_its_class_reads(config: HfConfig, part: HfConfig) -> HfConfig:
    """The language ``part`` of ``config``, under the type whose class reads it."""
    model_type = config.optional_text("model_type") or ""
    if part is config and model_type in _KEPT:
        part = part.with_value(_KEPT[model_type], None)
    name = _ALWAYS.get(model_type)
    if name is None and not part.has("model_type"):
        name = _DEFAULTS.get(model_type)
    if model_type in _BY_VERSION:
        name = _BY_VERSION[model_type].get(str(config.raw("version")))
    return part if name is None else part.with_value("model_type", name)
