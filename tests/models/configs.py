"""Builders of small configs: eight layers, sixteen heads of 64, four KV heads."""

from __future__ import annotations

from typing import Any

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import AttentionLayer, ModelShape

SIZES: dict[str, Any] = {
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_hidden_layers": 8,
}


def config(architecture: str, model_type: str, **keys: Any) -> HfConfig:
    """A text config; a key given as Ellipsis is left out."""
    values = {**SIZES, "architectures": [architecture], "model_type": model_type, **keys}
    return HfConfig({key: value for key, value in values.items() if value is not ...})


def wrapped(architecture: str, model_type: str, part: str, /, **keys: Any) -> HfConfig:
    """A multimodal config with its language part under ``part``."""
    inner = {key: value for key, value in {**SIZES, **keys}.items() if value is not ...}
    return HfConfig({"architectures": [architecture], "model_type": model_type, part: inner})


def shape(architecture: str, model_type: str, **keys: Any) -> ModelShape:
    return model_shape(config(architecture, model_type, **keys))


def windows(layers: tuple[AttentionLayer, ...]) -> list[int | None]:
    """The window of each layer, None for full attention."""
    return [layer.sliding_window for layer in layers]


def heads(layer: AttentionLayer) -> tuple[int, int, int]:
    """KV heads, key size, value size."""
    return (layer.num_kv_heads, layer.head_size, layer.head_size_v)
