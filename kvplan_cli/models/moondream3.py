"""Moondream 3's config: sections with names of its own, and sizes where they are mute.

Source: vLLM 0.33.0 ``vllm/transformers_utils/configs/moondream3.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig

# What the engine's class takes for a key that the file has not.
_TEXT: Final[Mapping[str, int]] = {
    "dim": 2048,
    "ff_dim": 8192,
    "n_layers": 24,
    "vocab_size": 51200,
    "max_context": 4096,
    "n_heads": 32,
    "n_kv_heads": 32,
}
_EXPERTS: Final[Mapping[str, int]] = {
    "start_layer": 4,
    "n_experts": 64,
    "expert_inner_dim": 1024,
}
_VISION: Final[Mapping[str, int]] = {
    "enc_dim": 1152,
    "enc_patch_size": 14,
    "enc_n_layers": 27,
    "enc_ff_dim": 4304,
    "proj_inner_dim": 8192,
    "crop_size": 378,
}
# Usual names that the class answers to, whatever the file says under them.
_USUAL: Final[Mapping[str, str]] = {
    "hidden_size": "dim",
    "intermediate_size": "ff_dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "max_position_embeddings": "max_context",
}


def language_part(config: HfConfig) -> HfConfig:
    """The language part of a whole config, under the usual names."""
    part = _part(config, "text", _TEXT)
    values = dict(part.values)
    experts = part.optional_section("moe")
    values["moe"] = {**_EXPERTS, **(experts.values if experts is not None else {})}
    for usual, own in _USUAL.items():
        values[usual] = part.positive(own)
    return HfConfig(values, part.origin, part.path)


def vision_part(config: HfConfig) -> HfConfig:
    """The image part, under its own names."""
    return _part(config, "vision", _VISION)


def _part(config: HfConfig, name: str, defaults: Mapping[str, Any]) -> HfConfig:
    whole = config.optional_section("config")
    given = whole.optional_section(name) if whole is not None else None
    values = given.values if given is not None else {}
    return HfConfig({**defaults, **values}, config.origin, config.where(f"config.{name}"))
