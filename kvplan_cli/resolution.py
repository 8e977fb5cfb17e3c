"""From a config, flags and a card to what the planner asks: pure, and the same for all callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeGuard

from kvplan_cli.backends.plan import BackendPlan, layer_specs
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules
from kvplan_cli.errors import EngineRefusalError, Problem, UnplannableError
from kvplan_cli.gpus import Gpu
from kvplan_cli.grouping.settings import PlannerSettings, SpeculativeSettings
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.registry import find_architecture, model_shape
from kvplan_cli.models.shape import ArchitectureTraits, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.recall import Call, call
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.settings.environment import MLA_DISABLE, number_flag
from kvplan_cli.settings.mm_items import takes_items_whole
from kvplan_cli.settings.model_impl import with_model_impl
from kvplan_cli.settings.resolve import resolve_settings
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs import FullAttentionSpec, MambaCacheMode
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """What the engine knows before memory is shared out."""

    traits: ArchitectureTraits
    shape: ModelShape
    settings: ResolvedSettings
    backends: BackendPlan
    rules: EngineRules = NEWEST_RULES

    @property
    def num_workers(self) -> int:
        """Pipeline stages; tensor parallel ranks of one stage are equal."""
        return len(self.backends.stages)


def resolve(
    config: HfConfig,
    extra_files: Mapping[str, Mapping[str, Any]],
    args: EngineArgs,
    gpu: Gpu,
    rules: EngineRules = NEWEST_RULES,
    recall: Call = call,
) -> ResolvedModel:
    """Resolve settings, layers and backends in the engine's order. rules: the release's.

    recall: how the steps are called, for callers that resolve one config many times.
    Raises: EngineRefusalError where the engine refuses, MissingFieldError where only the config
    class knows a field, InputError, UnplannableError.
    """
    _check_depth(config)
    config = recall(with_model_impl, config, args)
    traits = find_architecture(config)
    settings = resolve_settings(config, traits, args, gpu, extra_files)
    in_release = _in_release(args, settings, rules)
    if in_release is not args:
        args, settings = in_release, resolve_settings(config, traits, in_release, gpu, extra_files)
    config = recall(_without_window, config, args)
    shape = recall(_switched, recall(model_shape, config), args)
    backends = recall(layer_specs, shape, settings, args, gpu, config, extra_files, rules)
    return ResolvedModel(
        traits=traits, shape=shape, settings=settings, backends=backends, rules=rules
    )


def _in_release(args: EngineArgs, settings: ResolvedSettings, rules: EngineRules) -> EngineArgs:
    """The flags with an older release's default in place of the newest one's.

    Raises: UnplannableError for a flag that only older releases obey.
    """
    mode = args.mamba_cache_mode
    if not rules.derives_mamba_cache_mode and mode not in (None, settings.mamba_cache_mode):
        raise UnplannableError(
            Problem(
                where="--mamba-cache-mode",
                reason=f"vLLM {rules.release} obeys it; of its modes kvplan knows the one that "
                f"follows from prefix caching, here {settings.mamba_cache_mode}",
                way_out="drop the flag",
            )
        )
    drafts_ngrams = settings.speculative_method == "ngram"
    if drafts_ngrams and not rules.overlaps_ngrams and args.async_scheduling is None:
        return replace(args, async_scheduling=False)
    return args


# More layers than any model has; each costs time and memory here.
MAX_LAYERS = 10_000


def _check_depth(config: HfConfig) -> None:
    """Refuse an absurd number of layers before anything is built of it."""
    parts = [config, *(HfConfig(v, config.origin, k) for k, v in config.values.items() if _is(v))]
    for part in parts:
        for key, value in part.values.items():
            # Label maps of merged class defaults have numbers for keys.
            counts = str(key).endswith("layers") or key == "n_layer"
            if counts and isinstance(value, int | float) and value > MAX_LAYERS:
                raise part.wrong(key, f"at most {MAX_LAYERS:,} layers")


def _is(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _without_window(config: HfConfig, args: EngineArgs) -> HfConfig:
    """The config as the layers see it; the length was capped by the window before.

    A window of 0 says that there is none.
    Source: vLLM 0.33.0 ``config/model.py:ModelConfig.__post_init__``.
    """
    text = text_config(config)
    if not args.disable_sliding_window and text.raw("sliding_window") != 0:
        return config
    return config.with_value(text.where("sliding_window"), None)


def _switched(shape: ModelShape, args: EngineArgs) -> ModelShape:
    """The layers after VLLM_MLA_DISABLE has had its word."""
    if not number_flag(args.env, MLA_DISABLE):
        return shape
    from kvplan_cli.models.mla import unfolded

    return replace(shape, layers=tuple(map(unfolded, shape.layers)))


def _planner_block_size(model: ResolvedModel) -> int:
    """What the workers found; where nothing is cached, workers of other processes say nothing."""
    settings = model.settings
    alone = settings.tensor_parallel_size == settings.pipeline_parallel_size == 1
    if alone or any(model.backends.stages):
        return model.backends.block_size
    return settings.cache_block_size


def planner_settings(model: ResolvedModel, args: EngineArgs) -> PlannerSettings:
    """The planner's view of the resolved settings.

    Raises: EngineRefusalError when the stages' backends take different layouts.
    """
    settings, backends = model.settings, model.backends
    layouts = backends.supported_layouts
    if any(stage != layouts[0] for stage in layouts[1:]):
        shown = [[layout.value for layout in stage] for stage in layouts]
        raise EngineRefusalError(
            stage="plan_error",
            error_type="AssertionError",
            message=f"Workers disagree on supported KV cache layouts: {shown}.",
        )
    # Prefix caching believes in causal attention; the engine switches it off for the others.
    non_causal = any(
        isinstance(spec, FullAttentionSpec) and spec.non_causal
        for stage in backends.stages
        for spec in stage.values()
    )
    return PlannerSettings(
        max_model_len=settings.max_model_len,
        auto_fit=settings.auto_fit,
        block_size=_planner_block_size(model),
        tensor_parallel_size=settings.tensor_parallel_size,
        decode_context_parallel_size=settings.decode_context_parallel_size,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_concurrent_batches=settings.max_concurrent_batches,
        max_num_encoder_input_tokens=settings.max_num_encoder_input_tokens,
        num_gpu_blocks_override=settings.num_gpu_blocks_override,
        disable_hybrid_kv_cache_manager=settings.disable_hybrid_kv_cache_manager,
        supported_layouts=layouts[0],
        requested_layout=args.env.get("VLLM_KV_CACHE_LAYOUT"),
        enable_prefix_caching=settings.enable_prefix_caching and not non_causal,
        prefix_match_unit=args.prefix_match_unit,
        cp_kv_cache_interleave_size=args.cp_kv_cache_interleave_size or 1,
        disable_chunked_mm_input=takes_items_whole(model.traits, args),
        mamba_cache_mode=MambaCacheMode(settings.mamba_cache_mode),
        speculative=_speculative(settings.drafter, model.traits.architecture),
        rules=model.rules,
    )


# Their drafters' layers register last whatever the method, as those of MTP modules do.
_TRAILING_DRAFTS: Final = frozenset(
    {
        "DeepseekV41ForCausalLM",
        "DeepseekV4ForCausalLM",
        "DeepseekV4ForConditionalGeneration",
    }
)


def _speculative(drafter: Drafter | None, architecture: str) -> SpeculativeSettings | None:
    if drafter is None:
        return None
    return SpeculativeSettings(
        method=drafter.method,
        num_speculative_tokens=drafter.num_speculative_tokens,
        num_draft_modules=drafter.num_modules,
        trailing_draft_layers=drafter.method == "mtp" or architecture in _TRAILING_DRAFTS,
        disable_eagle_block_drop=drafter.disable_eagle_block_drop,
    )
