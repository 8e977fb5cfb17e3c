"""``--hf-overrides``: replace values of a config as the engine does.

Source: vLLM 0.33.0 ``vllm/config/model.py:_apply_dict_overrides`` and ``_update_nested``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.errors import UnplannableError
from kvplan_cli.loader.class_defaults import with_class_defaults

# The engine overrides after the config class has worked out what follows from the file
# (layer_types from the number of layers, ...). Nothing follows from these keys, so replacing
# them in the raw file comes to the same, without the cost of the class.
_INERT: Final = frozenset(
    {
        "architectures",
        "dtype",
        "max_position_embeddings",
        "model_max_length",
        "original_max_position_embeddings",
        "quantization_config",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "tie_word_embeddings",
        "torch_dtype",
        "vocab_size",
    }
)
# Parts that are objects but no config classes: the engine replaces them as a whole.
_PLAIN_OBJECTS: Final = frozenset({"quantization_config", "rope_parameters", "rope_scaling"})
# Two names of one attribute in the config classes: setting one unsets the other.
_ALIASES: Final[Mapping[str, str]] = {
    "rope_scaling": "rope_parameters",
    "rope_parameters": "rope_scaling",
    "dtype": "torch_dtype",
    "torch_dtype": "dtype",
}


def apply_hf_overrides(
    config: Mapping[str, Any], overrides: Mapping[str, Any], where: str = "config.json"
) -> dict[str, Any]:
    """The config with the overrides in it; nested configs are merged, other values replaced.

    InputError where the config class refuses the file that is overridden.
    """
    base = dict(config)
    if "model_type" in overrides:
        # The one key that the engine looks at before it chooses the class.
        base["model_type"] = overrides["model_type"]
    if not _only_inert(overrides):
        try:
            base, _ = with_class_defaults(base, where)
        except UnplannableError:
            # No class is known that could have worked anything out.
            base = dict(base)
    return _merged(base, overrides, nested=False)


def _only_inert(overrides: Mapping[str, Any]) -> bool:
    return all(
        key in _INERT
        or (key.endswith("_config") and isinstance(value, Mapping) and _only_inert(value))
        for key, value in overrides.items()
    )


def _merged(
    values: Mapping[str, Any], overrides: Mapping[str, Any], *, nested: bool
) -> dict[str, Any]:
    result = dict(values)
    for key, value in overrides.items():
        present = result.get(key)
        # Inside a nested config the engine merges every object, at the top only configs.
        mergeable = nested or (key.endswith("_config") and key not in _PLAIN_OBJECTS)
        if mergeable and isinstance(value, Mapping) and isinstance(present, Mapping):
            result[key] = _merged(present, value, nested=True)
            continue
        result[key] = value
        if (alias := _ALIASES.get(key)) is not None:
            result.pop(alias, None)
    return result
