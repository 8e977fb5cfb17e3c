"""A drafter's layers on the last pipeline stage, and the settings that they are built under.

Source: vLLM 0.33.0 ``vllm/v1/worker/gpu/spec_decode/*/speculator.py:load_draft_model`` and
``vllm/config/speculative.py:apply_draft_overrides``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.backends.attention_config import AttentionConfig, engine_facts
from kvplan_cli.backends.build import LayerBuilder
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope, quantization_config
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.layers import (
    draft_model_shape,
    head_is_a_model,
    head_is_non_causal,
    is_head,
)
from kvplan_cli.models.latent import keeps_latent_vectors
from kvplan_cli.models.shape import CacheLayer, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.draft_shape import shape_behind
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.settings.environment import PP_LAYER_PARTITION
from kvplan_cli.settings.pipeline import stage_layers as stage_layers_of
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLayers:
    """A drafter's layers, unsharded, in the engine's order, and what builds them."""

    layers: Sequence[CacheLayer]
    builder: LayerBuilder


def draft_layers(
    target: BuildScope, args: EngineArgs, gpu: Gpu, config: HfConfig, stage_layers: int
) -> DraftLayers | None:
    """The layers of the settings' drafter; None where it has none.

    config: the target's. stage_layers: its decoder layers on the last pipeline stage.
    Raises: EngineRefusalError, MissingFieldError, UnplannableError.
    """
    drafter = target.settings.drafter
    if drafter is None or drafter.config is None or not drafter.caches:
        return None
    settings = _settings(drafter, target.settings)
    _check_stages(drafter, settings)
    if drafter.method == "draft_model":
        shape = draft_model_shape(drafter.config)
        settings = replace(settings, use_mla=keeps_latent_vectors(text_config(drafter.config)))
        layers = _of_last_stage(shape, settings, args)
    else:
        shape = shape_behind(drafter, target.shape, config, stage_layers)
        layers = shape.layers
    # The engine builds most drafters with the target's config in scope.
    sizes, of = (shape, drafter.config) if _is_model(drafter, settings) else (target.shape, config)
    facts, attention = engine_facts(sizes, settings, args, gpu, of, target.facts.rules)
    scope = replace(
        target,
        shape=shape,
        settings=settings,
        facts=facts,
        attention=_direction(drafter, attention),
        quantization=quantization_config(drafter.config),
    )
    return DraftLayers(layers=layers, builder=LayerBuilder(scope=scope))


def _is_model(drafter: Drafter, settings: ResolvedSettings) -> bool:
    """Whether the drafter is built as a model of its own, by its own sizes."""
    if drafter.method == "draft_model":
        return True
    if not is_head(drafter.architectures) or not head_is_a_model(drafter.architectures):
        return False
    if settings.pipeline_parallel_size > 1:
        raise _unsplit()
    return True


def _unsplit() -> EngineRefusalError:
    """Such drafters are verified as models of their own, which the last stage alone builds."""
    return model_refusal(
        "NotImplementedError",
        "Pipeline parallelism is not supported for this model. Supported models implement "
        "the `SupportsPP` interface.",
    )


def _of_last_stage(
    shape: ModelShape, settings: ResolvedSettings, args: EngineArgs
) -> tuple[CacheLayer, ...]:
    """A draft model is shared out over the target's stages, and the last one alone builds it."""
    *_, last = stage_layers_of(
        shape.num_hidden_layers,
        settings.pipeline_parallel_size,
        args.env.get(PP_LAYER_PARTITION),
    )
    return tuple(layer for layer in shape.layers if layer.decoder_layer in last)


def _check_stages(drafter: Drafter, settings: ResolvedSettings) -> None:
    """Drafting layers that cannot be built behind several pipeline stages."""
    if settings.pipeline_parallel_size == 1:
        return
    if "Step5MTP" in drafter.architectures:
        raise _unsplit()
    if not _OWN_STAGES.isdisjoint(drafter.architectures):
        raise model_refusal(
            "RuntimeError",
            "DSparkDeepseekV4ForCausalLM needs the target input embedding, but it is unavailable "
            "on this PP stage",
        )


# Stages of a DeepSeek checkpoint, built like the target's layers.
_OWN_STAGES: Final = frozenset({"DSparkDraftModel", "DSparkV41DraftModel"})


def _settings(drafter: Drafter, target: ResolvedSettings) -> ResolvedSettings:
    backend = drafter.attention_backend
    if drafter.method == "draft_model" or (backend is None and not drafter.drafts_blocks):
        # A draft model goes by the target's backend whatever is asked for it.
        backend = target.attention_backend
    elif backend is None and not _OWN_STAGES.isdisjoint(drafter.architectures):
        backend = target.attention_backend
    return replace(
        target,
        attention_backend=backend,
        cache_dtype=drafter.kv_cache_dtype or target.cache_dtype,
        quantization=drafter.quantization,
        has_kv_cache_scheme=drafter.has_kv_cache_scheme,
    )


def _direction(drafter: Drafter, attention: AttentionConfig) -> AttentionConfig:
    """Drafters of blocks need a backend that can attend both ways, if any layer does."""
    if not drafter.drafts_blocks or drafter.config is None:
        return attention
    both_ways = head_is_non_causal(drafter.architectures, drafter.config)
    return replace(attention, use_non_causal=both_ways)
