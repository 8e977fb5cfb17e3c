"""The longest sequence: what the config allows, and what the user asked for.

Source: vLLM 0.33.0 ``vllm/config/model.py:_get_and_verify_max_len`` and
``vllm/transformers_utils/model_arch_config_convertor.py:derive_max_model_len_and_key``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN, EngineArgs
from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.language import Language
from kvplan_cli.settings.environment import ALLOW_LONG_MAX_MODEL_LEN, word_flag
from kvplan_cli.settings.refusal import check_at_least, refuses
from kvplan_cli.settings.rope import is_longrope, length_factor, rope_scalings
from kvplan_cli.values import dataclass

# In the engine's order: on a tie the first key is named.
_LENGTH_KEYS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Config classes that keep the length elsewhere and answer to max_position_embeddings too.
_KEPT_AS: Final[Mapping[str, str]] = {
    "gpt2": "n_positions",
    "gpt_bigcode": "n_positions",
    "gptj": "n_positions",
    "dbrx": "max_seq_len",
    "chatglm": "seq_length",
}
# Config classes that have a length of another name only.
_OWN_KEY: Final[Mapping[str, str]] = {
    "telechat": "seq_length",
    "whisper": "max_target_positions",
}
# Config classes of the engine's own with another length, and its number where the file is mute.
# Source: vLLM 0.33.0 ``transformers_utils/configs/{step3_vl,step5}.py``.
_OTHER_LENGTH: Final[Mapping[str, tuple[str, int]]] = {
    "step3_text": ("max_seq_len", 65536),
    "step5": ("max_seq_len", 4096),
}
# Config classes without any length: positions are unbounded.
_NO_LENGTH: Final = frozenset({"bloom", "mamba", "mamba2", "falcon_mamba"})
# Config classes where model_max_length is another name of the length.
_MODEL_MAX_LENGTH_IS_LENGTH: Final = frozenset({"inkling_text"})
# Config classes that state the length before long-context scaling beside the rotary set.
_STATES_ORIGINAL_LENGTH: Final = frozenset({"phi3", "phi4_multimodal"})
_ASSUMED_LENGTH: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthLimits:
    """Limits beside the config's. tokenizer: ``model_max_length`` of the tokenizer, where the
    engine asks for it. encoder: ``max_seq_length`` of a sentence-transformers model.
    """

    tokenizer: float | None = None
    encoder: int | None = None


NO_LIMITS: Final = LengthLimits()


def max_model_len(
    text: HfConfig,
    args: EngineArgs,
    limits: LengthLimits = NO_LIMITS,
    *,
    assumed: int = _ASSUMED_LENGTH,
) -> int:
    """Tokens of the longest sequence; for auto, the length that auto-fit starts from.

    text: the language part of the config. assumed: tokens where it states no length.
    Raises MissingFieldError where only the config class knows the length, EngineRefusalError
    for a length that the engine refuses.
    """
    check_at_least("max_model_len", args.max_model_len, AUTO_MAX_MODEL_LEN)
    length = _verified(text, args, limits, assumed)
    if length < 1:
        raise refuses(
            f"max_model_len must be a positive integer, got int: {length}. "
            "Example: max_model_len=2048"
        )
    return length


def _verified(text: HfConfig, args: EngineArgs, limits: LengthLimits, assumed: int) -> int:
    asked = args.max_model_len
    derived, key = _derived(text, args.disable_sliding_window)
    if limits.tokenizer is not None:
        derived = min(derived, limits.tokenizer)
    if math.isinf(derived):
        if asked is not None:
            # Auto is taken as it stands here, and refused as no positive length.
            return asked
        derived = assumed
    scalings = rope_scalings(text)
    if "gemma3" not in (text.optional_text("model_type") or ""):
        # Gemma 3 states its length after scaling.
        derived *= length_factor(scalings)
    if limits.encoder is not None:
        derived = limits.encoder
    if asked is None or asked == AUTO_MAX_MODEL_LEN:
        return _original_length(text, derived) if is_longrope(scalings) else int(derived)
    if asked > derived:
        _check_override(asked, derived, key, _model_max_length(text), args.env)
    return asked


def _derived(text: HfConfig, disable_sliding_window: bool) -> tuple[float, str | None]:
    """The smallest length that the config states, and its key; infinite where none is."""
    lengths = _stated_lengths(text)
    smallest, key = math.inf, None
    for name in _LENGTH_KEYS:
        if name in lengths and lengths[name] < smallest:
            smallest, key = float(lengths[name]), name
    tokenized = _model_max_length(text)
    if tokenized:
        smallest, key = float(tokenized), "model_max_length"
    if disable_sliding_window:
        window = Language.of(text).sliding_window
        if window is not None and window < smallest:
            return float(window), "sliding_window"
    return smallest, key


def _stated_lengths(text: HfConfig) -> dict[str, int]:
    lengths = {}
    for name in _LENGTH_KEYS:
        value = text.optional_integer(name, minimum=1)
        if value is not None:
            lengths[name] = value
    model_type = text.optional_text("model_type") or ""
    kept = _KEPT_AS.get(model_type)
    if kept is not None and text.has(kept):
        lengths.setdefault("max_position_embeddings", text.positive(kept))
    if model_type in _OTHER_LENGTH:
        other, number = _OTHER_LENGTH[model_type]
        lengths.setdefault(other, number)
        return lengths
    own = _OWN_KEY.get(model_type, "max_position_embeddings")
    # A length that stands for all others makes the class's own one irrelevant.
    if own not in lengths and "model_max_length" not in lengths and model_type not in _NO_LENGTH:
        raise MissingFieldError(text.where(kept or own), text.origin)
    return lengths


def _model_max_length(text: HfConfig) -> int | None:
    value = text.optional_integer("model_max_length", minimum=1)
    if value is None and text.optional_text("model_type") in _MODEL_MAX_LENGTH_IS_LENGTH:
        return text.positive("max_position_embeddings")
    return value


def _original_length(text: HfConfig, derived: float) -> int:
    """Long-context scaling costs short sequences quality: the engine starts without it."""
    key = "original_max_position_embeddings"
    if text.optional_text("model_type") in _STATES_ORIGINAL_LENGTH:
        return text.positive(key)
    original = text.optional_integer(key, minimum=1)
    return int(derived) if original is None else original


def _check_override(
    asked: int,
    derived: float,
    key: str | None,
    model_max_length: int | None,
    env: Mapping[str, str],
) -> None:
    if model_max_length is not None and asked <= model_max_length:
        return
    if word_flag(env, ALLOW_LONG_MAX_MODEL_LEN):
        return
    raise refuses(
        f"User-specified max_model_len ({asked}) is greater than the derived max_model_len "
        f"({key}={derived} or model_max_length={model_max_length} in model's config.json). "
        f"To allow overriding this maximum, set the env var {ALLOW_LONG_MAX_MODEL_LEN}=1. "
        f"{ALLOW_LONG_MAX_MODEL_LEN} must be used with extreme caution. If the model uses "
        "relative position encoding (RoPE), positions exceeding derived_max_model_len lead to "
        "nan. If the model uses absolute position encoding, positions exceeding "
        "derived_max_model_len will cause a CUDA array out-of-bounds error.",
        way_out=f"ask for at most {int(derived)} tokens",
    )
