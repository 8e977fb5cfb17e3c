"""Rotary position parameters, as far as they stretch a model's length.

Source: vLLM 0.33.0 ``vllm/transformers_utils/config.py:patch_rope_parameters`` and
``iter_rope_parameters``; transformers 5.20.2 ``modeling_rope_utils.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.settings.refusal import refuses
from kvplan_cli.values import dataclass

# Older names of a kind.
_RENAMED: Final = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}
# Pairs of legacy and modern names that mean the same.
_AGREEING: Final = frozenset({("su", "longrope"), ("mrope", "default")})
# Kinds whose length the config states after scaling.
_ALREADY_SCALED: Final = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
_NEEDS_FACTOR: Final = ("linear", "dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """One set of rotary parameters. factor: None where the set has none, or a null."""

    rope_type: str
    factor: float | None
    has_factor: bool


def rope_scalings(text: HfConfig) -> tuple[RopeScaling, ...]:
    """The sets of a language config: one, or one a layer type; none without rotary keys.

    A set that a file omits needs no class default: no config class has one that stretches.
    Raises EngineRefusalError where the engine cannot read a set.
    """
    key = "rope_scaling" if text.raw("rope_scaling") else "rope_parameters"
    section = text.optional_section(key)
    if section is None:
        return ()
    nested = [value for value in section.values.values() if isinstance(value, Mapping)]
    if nested and "rope_type" not in section.values and "type" not in section.values:
        return tuple(_scaling(values, text, key) for values in nested if values)
    return (_scaling(section.values, text, key),) if section.values else ()


def is_longrope(scalings: tuple[RopeScaling, ...]) -> bool:
    return any(scaling.rope_type == "longrope" for scaling in scalings)


def length_factor(scalings: tuple[RopeScaling, ...]) -> float:
    """By how much the sets stretch the stated length; the last set that has a factor counts.

    Source: vLLM 0.33.0 ``vllm/config/model.py:_get_and_verify_max_len``.
    """
    factor: float | None = 1.0
    for scaling in scalings:
        if scaling.rope_type not in _ALREADY_SCALED and scaling.has_factor:
            factor = scaling.factor
    return 1.0 if factor is None else factor


def _scaling(values: Mapping[str, Any], text: HfConfig, key: str) -> RopeScaling:
    rope_type = _rope_type(values)
    if rope_type == "mrope" and "mrope_section" not in values:
        raise refuses("Legacy rope_type 'mrope' requires 'mrope_section' in rope_parameters")
    rope_type = _RENAMED.get(rope_type, rope_type)
    if rope_type in _NEEDS_FACTOR and "factor" not in values:
        # KeyError's text is the repr of its message.
        raise refuses(
            f"\"Missing required keys in `rope_parameters` for 'rope_type'='{rope_type}': "
            "{'factor'}\"",
            error_type="KeyError",
        )
    factor = HfConfig(values, text.origin, text.where(key)).optional_number("factor")
    return RopeScaling(rope_type=rope_type, factor=factor, has_factor="factor" in values)


def _rope_type(values: Mapping[str, Any]) -> str:
    legacy, modern = values.get("type"), values.get("rope_type")
    if legacy is None or modern is None:
        return str(modern or legacy or "default")
    if legacy != modern and (legacy, modern) not in _AGREEING:
        raise refuses(
            f"Found conflicts between 'rope_type={modern}' (modern field) and "
            f"'type={legacy}' (legacy field). You should only specify one of them."
        )
    return str(modern)
