"""Generation or pooling, and what follows for prefill and prefix caching.

Source: vLLM 0.33.0 ``vllm/config/model.py`` (``_get_runner_type``, ``attn_type``,
``is_chunked_prefill_supported``, ``is_prefix_caching_supported``) and
``vllm/transformers_utils/config.py:get_pooling_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from kvplan_cli.settings.model_hooks import is_causal
from kvplan_cli.settings.refusal import check_one_of, refuses

MODULES: Final = "modules.json"
_RUNNERS: Final = ("auto", "generate", "pooling", "draft")
_POOLING_MODULES: Final = frozenset(
    {
        "sentence_transformers.models.Pooling",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    }
)
# Pooling over a whole sequence needs all of it in one step.
_WHOLE_SEQUENCE: Final = ("MEAN", "CLS")


def runner_type(
    traits: ArchitectureTraits, flag: str, extra_files: Mapping[str, Any]
) -> RunnerType:
    """What the engine runs the model for. flag: ``--runner``.

    extra_files: ``modules.json`` of a sentence-transformers model makes any architecture pool.
    """
    check_one_of("runner", flag, _RUNNERS)
    if flag == "draft":
        raise InputError(
            Problem(
                where="--runner",
                reason="a draft model has no cache of its own",
                way_out="plan the target model with --speculative-config",
            )
        )
    if flag == "auto":
        pools = _pooling_module(extra_files) is not None
        return RunnerType.POOLING if pools else traits.runner_type
    if traits.runner_type is RunnerType.POOLING and flag == "generate":
        raise refuses(
            "Embedding models do not support `--runner generate`. Use `--runner pooling` or "
            "`--runner auto` for embedding models."
        )
    return RunnerType(flag)


def supports_partial_prefill(
    traits: ArchitectureTraits,
    runner: RunnerType,
    config: HfConfig,
    extra_files: Mapping[str, Any],
) -> bool:
    """Whether the engine splits prompts into chunks and reuses prefixes by default."""
    if runner is RunnerType.GENERATE:
        return not traits.is_encoder_decoder
    if traits.is_encoder_decoder or traits.default_seq_pooling_type == "CLS":
        return False
    if traits.attn_type == "encoder_only" or not is_causal(traits.architecture, config):
        return False
    if traits.default_tok_pooling_type == "STEP":
        return False
    return _seq_pooling_type(traits, extra_files) not in _WHOLE_SEQUENCE


def _seq_pooling_type(traits: ArchitectureTraits, extra_files: Mapping[str, Any]) -> str:
    module = _pooling_module(extra_files)
    if module is not None:
        stated = _stated_pooling(extra_files.get(f"{module.get('path')}/config.json"))
        if stated is not None:
            return stated
    return traits.default_seq_pooling_type


def _pooling_module(extra_files: Mapping[str, Any]) -> Mapping[str, Any] | None:
    modules = extra_files.get(MODULES)
    if not isinstance(modules, list | tuple):
        return None
    for module in modules:
        if isinstance(module, Mapping) and module.get("type") in _POOLING_MODULES:
            return module
    return None


def _stated_pooling(settings: object) -> str | None:
    """The sequence pooling that a pooling module's config names; the last one counts."""
    if not isinstance(settings, Mapping):
        return None
    stated = None
    for key, value in settings.items():
        named = value if key == "pooling_mode" and isinstance(value, str) else None
        if named is None and value is not True:
            continue
        name = (named or str(key)).replace("pooling_mode_", "").split("_", 1)[0]
        kind = ("last" if "lasttoken" in name else name).upper()
        if kind in ("CLS", "LAST", "MEAN"):
            stated = kind
    return stated
