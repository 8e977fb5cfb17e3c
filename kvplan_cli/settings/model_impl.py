"""Whose classes run a model: the engine's own, or the Transformers library's.

Source: vLLM 0.33.0 ``model_executor/models/registry.py:inspect_model_cls`` and
``vllm/config/model.py`` (``_get_transformers_backend_cls``, ``_SUFFIX_TO_DEFAULTS``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.choice import whole_names
from kvplan_cli.models.library import (
    LIBRARY_CLASSES,
    check_compatible,
    generic_name,
    is_known,
)
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.heads import check_kv_heads
from kvplan_cli.settings.parallel_rules import has_experts

_GENERATES: Final = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
_EMBEDS: Final = ("ForTextEncoding", "EmbeddingModel", "ForRewardModeling", "RewardModel", "Model")
_CLASSIFIES: Final = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForAudioClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ClassificationModel",
)


def with_model_impl(config: HfConfig, args: EngineArgs) -> HfConfig:
    """The config, named after the library's generic class where that one runs it.

    Raises: EngineRefusalError where the library's class cannot take the engine's attention,
    UnplannableError where nobody can tell.
    """
    names = whole_names(config)
    if not names or args.model_impl == "vllm":
        return config
    if args.model_impl == "terratorch":
        raise UnplannableError(
            Problem(
                where="--model-impl",
                reason="terratorch runs any module of another library, without a KV cache",
            )
        )
    if args.model_impl == "transformers":
        if names[0] in LIBRARY_CLASSES:
            return config.with_value("architectures", [names[0]])
        check_kv_heads(text_config(config))
        check_compatible(config, names[0])
    elif not _falls_back(config, names):
        return config
    text = text_config(config)
    generic = generic_name(
        is_multimodal=bool(text.path),
        has_experts=has_experts(text),
        ending=_ending(names[0], args.runner),
    )
    return config.with_value("architectures", [generic])


def _falls_back(config: HfConfig, names: Sequence[str]) -> bool:
    """Whether the engine has no class of these names, and the library has one that is known."""
    from kvplan_cli.models.engine_names import ENGINE_NAMES, LIBRARY_NAMES

    return (
        names[0] in LIBRARY_NAMES
        and not any(name in ENGINE_NAMES for name in names)
        and is_known(config)
    )


def _ending(name: str, runner: str) -> str:
    """What the generic class does: pools only where the name says how."""
    if name.endswith(_GENERATES) or runner not in ("auto", "pooling"):
        return "ForCausalLM"
    if name.endswith(_CLASSIFIES):
        return "ForSequenceClassification"
    return "EmbeddingModel" if name.endswith(_EMBEDS) else "ForCausalLM"
