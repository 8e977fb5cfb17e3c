"""What a config's class of ``transformers`` says where the file says nothing.

The engine builds the class and reads its attributes; so the class is built here too, from the
file's own values, and only what the file lacks is taken from it. Never remote code: a
``model_type`` that the installed ``transformers`` does not bring is refused.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem, UnplannableError
from kvplan_cli.loader.problems import printable

# Model types that the engine reads with another type's class, or with one that only adds to it.
# Source: vLLM 0.33.0 ``vllm/transformers_utils/config.py:_CONFIG_REGISTRY``.
_READ_AS: Final[Mapping[str, str]] = {
    "colqwen3": "qwen3_vl",
    "deepseek_v32": "deepseek_v3",
    "kimi_k2": "deepseek_v3",
    "ops_colqwen3": "qwen3_vl",
    "qwen3_vl_nemotron_embed": "qwen3_vl",
}

# Model types for which the engine brings a class of its own: the defaults of transformers
# need not be its. Same source; those without a class in transformers are refused anyway.
_ENGINE_OWN: Final = frozenset(
    {
        "beam",
        "hy_v4",
        "inkling_mm_model",
        "kimi_linear",
        "minimax_m3_vl",
        "moss_transcribe_diarize",
        "muse_spark",
        "muse_spark_text",
        "qwen3_asr",
        "unlimited_ocr",
    }
)

# Keys of every config class that no plan reads.
_NOISE: Final = frozenset(
    {
        "architectures",
        "chunk_size_feed_forward",
        "id2label",
        "label2id",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "return_dict",
        "transformers_version",
    }
)


def with_class_defaults(
    config: Mapping[str, Any], where: str = "config.json"
) -> tuple[dict[str, Any], dict[str, str]]:
    """The config with its class's values beneath the file's, and where each of those is from.

    Keys that the file lacks or holds as null get the class's value, in nested parts too. The
    second value maps their dotted paths to the class. UnplannableError for a model type
    without a usable class; InputError where the class itself refuses the file's values.
    """
    instance = _instance(config, where)
    origins: dict[str, str] = {}
    merged = _beneath(config, instance, "", origins)
    return merged, origins


def _instance(config: Mapping[str, Any], where: str) -> Any:
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise _unknown(where, "no model_type says which config class has the missing values")
    if model_type in _ENGINE_OWN:
        raise _unknown(where, f"the engine reads model_type {model_type} with a class of its own")
    with _quiet_transformers():
        from transformers import CONFIG_MAPPING, __version__

        if (read_as := _READ_AS.get(model_type, model_type)) not in CONFIG_MAPPING:
            shown_type = printable(model_type, 60)
            raise _unknown(where, f"transformers {__version__} has no class for {shown_type}")
        # Foreign code on foreign values: whatever it raises is about the values.
        try:
            return CONFIG_MAPPING[read_as].from_dict(copy.deepcopy(dict(config)))
        except Exception as error:
            raise _refused(where, error) from None


def _beneath(
    values: Mapping[str, Any], instance: Any, path: str, origins: dict[str, str]
) -> dict[str, Any]:
    merged = dict(values)
    known = instance.to_dict()
    # Further names of the same values, such as num_hidden_layers for GPT-2's n_layer.
    names = {alias: alias for alias in getattr(instance, "attribute_map", {})}
    names.update({key: key for key in known})
    for key in names:
        if key in _NOISE or key.startswith("_"):
            continue
        value = _attribute(instance, key, known.get(key))
        given = values.get(key)
        if isinstance(given, Mapping) and _is_config(value):
            merged[key] = _beneath(given, value, f"{path}{key}.", origins)
        elif given is None and (key not in values or value is not None):
            merged[key] = value.to_dict() if _is_config(value) else known.get(key, value)
            origins[path + key] = f"default of {type(instance).__name__} (transformers)"
    return merged


def _attribute(instance: Any, key: str, written: Any) -> Any:
    """An attribute of a config class; what it writes out where reading it is refused.

    Classes whose layers differ refuse to name one value for all of them.
    """
    try:
        return getattr(instance, key, written)
    except Exception:
        return written


def _is_config(value: Any) -> bool:
    return hasattr(value, "to_dict") and hasattr(value, "model_type")


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Import without the library's notices: standard error is for the user's own answer."""
    names = ("TRANSFORMERS_VERBOSITY", "TRANSFORMERS_NO_ADVISORY_WARNINGS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict(zip(names, ("critical", "1"), strict=True)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _unknown(where: str, reason: str) -> UnplannableError:
    return UnplannableError(
        Problem(
            where=where,
            reason=reason,
            way_out="add the missing fields to the config, or give them with --hf-overrides",
        )
    )


def _refused(where: str, error: Exception) -> InputError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = printable(" ".join(lines)) or type(error).__name__
    return InputError(Problem(where=where, reason=f"its config class refuses it: {reason}"))
