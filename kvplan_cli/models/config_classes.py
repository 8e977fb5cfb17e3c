"""What the ``transformers`` config classes make of keys that a file omits or switches off.

One row a ``model_type``. Numbers of the classes are not repeated here: where the default is a
number, the row says ``Absent.ASK`` and the reader raises MissingFieldError.
Source: transformers 5.20.2 ``models/*/configuration_*.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.layer_types import (
    declared,
    every,
    exaone_pattern,
    gated_tail,
    llama4_chunks,
    nope_windows,
)

WindowField = Callable[[HfConfig], int | None]
LayerTypes = Callable[[HfConfig, int, int | None], Sequence[str] | None]


class Absent(Enum):
    """What a key means that the file does not have."""

    DERIVED = "derived"
    ASK = "ask"


def optional_window(config: HfConfig) -> int | None:
    return config.optional_integer("sliding_window", minimum=0)


def required_window(config: HfConfig) -> int | None:
    return config.nullable_integer("sliding_window", minimum=0)


def gated_window(config: HfConfig) -> int | None:
    """Qwen's window counts only with ``use_sliding_window``, which is off by default."""
    if not config.optional_boolean("use_sliding_window"):
        return None
    return required_window(config)


def bidirectional_window(config: HfConfig) -> int | None:
    """Gemma's window, halved for a model that attends both ways."""
    window = required_window(config)
    if window is not None and config.raw("use_bidirectional_attention") is True:
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
    """

    num_key_value_heads: Absent = Absent.DERIVED
    head_dim: Absent = Absent.DERIVED
    sliding_window: WindowField = optional_window
    layer_types: LayerTypes = declared
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_ASK = Absent.ASK
_GPT_NAMES: Final = {
    "num_hidden_layers": ("n_layer",),
    "num_attention_heads": ("n_head",),
    "hidden_size": ("n_embd",),
}
_QWEN2: Final = ConfigClass(
    num_key_value_heads=_ASK, sliding_window=gated_window, layer_types=gated_tail
)
_QWEN3: Final = ConfigClass(
    num_key_value_heads=_ASK, head_dim=_ASK, sliding_window=gated_window, layer_types=gated_tail
)
_KV_ASKED: Final = ConfigClass(num_key_value_heads=_ASK)
_HEADS_ASKED: Final = ConfigClass(num_key_value_heads=_ASK, head_dim=_ASK)
_GEMMA2: Final = ConfigClass(
    num_key_value_heads=_ASK,
    head_dim=_ASK,
    sliding_window=required_window,
    layer_types=every(2),
)
_GEMMA3: Final = ConfigClass(
    num_key_value_heads=_ASK,
    head_dim=_ASK,
    sliding_window=bidirectional_window,
    layer_types=every(6, "sliding_window_pattern"),
)
_EXAONE: Final = ConfigClass(
    num_key_value_heads=_ASK, sliding_window=required_window, layer_types=exaone_pattern
)

CONFIG_CLASSES: Final[Mapping[str, ConfigClass]] = {
    "exaone4": _EXAONE,
    "exaone_moe": _EXAONE,
    "gemma": _HEADS_ASKED,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "gpt2": ConfigClass(aliases=_GPT_NAMES),
    "gpt_oss": ConfigClass(
        num_key_value_heads=_ASK,
        head_dim=_ASK,
        sliding_window=required_window,
        layer_types=every(2),
    ),
    "llama4_text": ConfigClass(num_key_value_heads=_ASK, head_dim=_ASK, layer_types=llama4_chunks),
    "mistral": ConfigClass(num_key_value_heads=_ASK, sliding_window=required_window),
    "mixtral": _KV_ASKED,
    "qwen2": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": ConfigClass(num_key_value_heads=_ASK, sliding_window=gated_window),
    "smollm3": ConfigClass(num_key_value_heads=_ASK, layer_types=nope_windows),
}


def config_class(model_type: str | None) -> ConfigClass:
    """The row of ``model_type``; for a class that nobody knows, the file's values as they are."""
    return CONFIG_CLASSES.get(model_type or "", ConfigClass())
