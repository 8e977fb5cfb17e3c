"""From flags, config and card to the engine's settings, in the engine's order.

The order matters for what is refused: the first rule that fails is the one the engine prints.
Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:create_engine_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.latent import keeps_latent_vectors
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.settings import max_len
from kvplan_cli.settings.attention_backend import attention_backend
from kvplan_cli.settings.batch import BatchLimits, batch_limits
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.settings.environment import MLA_DISABLE, number_flag
from kvplan_cli.settings.heads import check_encoder_heads, check_kv_heads
from kvplan_cli.settings.kv_dtype import (
    check_kv_dtype,
    check_mla_kv_dtype,
    has_kv_cache_scheme,
    kv_cache_dtype,
)
from kvplan_cli.settings.lora import check_slots_on_host, check_takes_adapters
from kvplan_cli.settings.mamba import (
    MambaCache,
    check_chunked_prefill,
    check_mamba_block_size,
    check_packed_cache,
    mamba_cache,
)
from kvplan_cli.settings.mm_items import room_by_default
from kvplan_cli.settings.model_dtype import model_dtype
from kvplan_cli.settings.model_hooks import (
    check_backend,
    check_config,
    check_pipeline,
    check_pooling,
    diffusion_canvas_length,
    hooked_backend,
    hooked_cache_dtype,
    hooked_max_model_len,
    hooked_max_num_seqs,
    hooked_prefix_caching,
)
from kvplan_cli.settings.parallel_rules import check_model_fits, check_sizes
from kvplan_cli.settings.quantization import (
    CheckpointQuantization,
    checkpoint_quantization,
    quantization_method,
)
from kvplan_cli.settings.quantization_methods import check_method
from kvplan_cli.settings.refusal import check_positive, refuses
from kvplan_cli.settings.resolved import DEFAULT_BLOCK_SIZE, ResolvedSettings
from kvplan_cli.settings.runner import runner_type, supports_partial_prefill
from kvplan_cli.settings.scheduling import (
    Scheduling,
    check_slots,
    disable_hybrid_kv_cache_manager,
    scheduling,
)
from kvplan_cli.settings.sentence_transformers import encoder_max_length, tokenizer_max_length
from kvplan_cli.values import dataclass

ExtraFiles = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """What stands once the engine's model config is built."""

    runner: RunnerType
    dtype: DType
    max_model_len: int
    checkpoint: CheckpointQuantization | None
    quantization: str | None
    is_hybrid: bool
    use_mla: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cache:
    cache_dtype: str
    mamba: MambaCache


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prefill:
    enable_chunked_prefill: bool
    enable_prefix_caching: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    model: _Model
    prefill: _Prefill
    cache: _Cache
    limits: BatchLimits
    backend: str | None
    steps: Scheduling
    drafter: Drafter | None


def resolve_settings(
    config: HfConfig,
    traits: ArchitectureTraits,
    args: EngineArgs,
    gpu: Gpu,
    extra_files: ExtraFiles,
) -> ResolvedSettings:
    """The settings that the engine starts with.

    extra_files: parsed JSON files beside the config by name. Counted are
    ``hf_quant_config.json``, ``modules.json`` with its pooling config, ``sentence_*_config.json``
    and ``tokenizer_config.json``.
    Raises EngineRefusalError (stage ``config_error``) where the engine refuses, MissingFieldError
    where only the config class knows a field, InputError for values that mean nothing.
    """
    model = _model(config, traits, args, gpu, extra_files)
    prefill = _prefill(config, traits, args, model.runner, extra_files)
    cache = _cache(config, traits, args, model, prefill)
    given_dtype = cache.cache_dtype
    cache_dtype = hooked_cache_dtype(traits.architecture, config, gpu, given_dtype)
    cache = replace(cache, cache_dtype=cache_dtype)
    check_sizes(args)
    check_slots_on_host(args)
    drafter = _drafter(config, args, gpu, extra_files, model)
    if drafter is not None and given_dtype == "auto" != cache_dtype:
        drafter = drafter.keeping_model_dtype()
    limits = batch_limits(
        args,
        gpu,
        max_model_len=model.max_model_len,
        enable_chunked_prefill=prefill.enable_chunked_prefill,
        largest_mm_item=room_by_default(traits, args),
    )
    backend = _backend(config, traits, args, gpu)
    _check_model(config, traits, args, model, prefill, cache)
    _check_method(model, gpu)
    steps = scheduling(args, model.runner, config, drafter)
    parts = _Parts(
        model=_limited(model, drafter, steps),
        prefill=prefill,
        cache=cache,
        limits=limits,
        backend=backend,
        steps=steps,
        drafter=drafter,
    )
    _check_steps(args, parts)
    return _assembled(config, traits, args, parts)


def _check_model(
    config: HfConfig,
    traits: ArchitectureTraits,
    args: EngineArgs,
    model: _Model,
    prefill: _Prefill,
    cache: _Cache,
) -> None:
    """What the engine asks before it chooses a quantization method."""
    check_pipeline(traits.architecture, config, args.pipeline_parallel_size)
    check_chunked_prefill(
        mamba_cache_mode=cache.mamba.mamba_cache_mode,
        enable_chunked_prefill=prefill.enable_chunked_prefill,
    )
    check_kv_dtype(cache.cache_dtype, model.dtype)
    check_model_fits(args, traits, config, text_config(config), use_mla=model.use_mla)
    check_takes_adapters(args, traits.architecture)


def _check_steps(args: EngineArgs, parts: _Parts) -> None:
    """What it asks once it knows how its steps run."""
    check_mla_kv_dtype(parts.cache.cache_dtype, use_mla=parts.model.use_mla)
    check_mamba_block_size(
        args,
        enable_prefix_caching=parts.prefill.enable_prefix_caching,
        max_model_len=parts.model.max_model_len,
    )
    check_slots(parts.drafter, parts.limits.max_num_batched_tokens)


def _backend(
    config: HfConfig, traits: ArchitectureTraits, args: EngineArgs, gpu: Gpu
) -> str | None:
    given = attention_backend(args.attention_backend)
    check_backend(traits.architecture, given)
    return hooked_backend(traits.architecture, config, gpu, given)


def _check_method(model: _Model, gpu: Gpu) -> None:
    check_method(
        model.quantization,
        quantized_checkpoint=model.checkpoint is not None,
        dtype=model.dtype,
        gpu=gpu,
    )


def _drafter(
    config: HfConfig,
    args: EngineArgs,
    gpu: Gpu,
    extra_files: ExtraFiles,
    model: _Model,
) -> Drafter | None:
    if args.speculative_config is None:
        return None
    # Imported rarely: most plans have no drafter.
    from kvplan_cli.settings.speculative import DraftTarget, resolve_drafter

    target = DraftTarget(
        config=config,
        extra_files=extra_files,
        max_model_len=model.max_model_len,
        quantization=model.quantization,
    )
    return resolve_drafter(args, args.speculative_config, target, gpu)


def _limited(model: _Model, drafter: Drafter | None, steps: Scheduling) -> _Model:
    """The newer runner cannot go on without a draft model that ends earlier.

    Source: vLLM 0.33.0 ``vllm/config/vllm.py:_limit_max_model_len_to_draft``.
    """
    if drafter is None or drafter.shares_positions or not steps.use_v2_model_runner:
        return model
    length = drafter.max_model_len
    if length is None or length >= model.max_model_len:
        return model
    return replace(model, max_model_len=length)


def _model(
    config: HfConfig,
    traits: ArchitectureTraits,
    args: EngineArgs,
    gpu: Gpu,
    extra_files: ExtraFiles,
) -> _Model:
    check_kv_heads(text_config(config))
    runner = runner_type(traits, args.runner, extra_files)
    checkpoint = checkpoint_quantization(config, extra_files)
    dtype = model_dtype(config, args.dtype, runner, gpu)
    limits = max_len.LengthLimits(
        tokenizer=tokenizer_max_length(config, runner, extra_files),
        encoder=encoder_max_length(extra_files),
    )
    length = max_len.max_model_len(text_config(config), args, limits)
    check_config(traits.architecture, config)
    check_pooling(traits.architecture, config)
    check_encoder_heads(config)
    method = quantization_method(
        checkpoint, args.quantization, config.optional_text("model_type"), gpu
    )
    return _Model(
        runner=runner,
        dtype=dtype,
        max_model_len=length,
        checkpoint=checkpoint,
        quantization=method,
        is_hybrid=traits.is_hybrid,
        use_mla=keeps_latent_vectors(text_config(config))
        and not number_flag(args.env, MLA_DISABLE),
    )


def _prefill(
    config: HfConfig,
    traits: ArchitectureTraits,
    args: EngineArgs,
    runner: RunnerType,
    extra_files: ExtraFiles,
) -> _Prefill:
    default = supports_partial_prefill(traits, runner, config, extra_files)
    chunked, cached = args.enable_chunked_prefill, args.enable_prefix_caching
    # States alone are cached on demand only: the engine calls it experimental.
    caches = default and not (traits.is_attention_free and runner is RunnerType.GENERATE)
    return _Prefill(
        # A decoder that reads an encoder's output never splits a prompt, whatever is asked.
        enable_chunked_prefill=not traits.is_encoder_decoder
        and (default if chunked is None else chunked),
        enable_prefix_caching=caches if cached is None else cached,
    )


def _cache(
    config: HfConfig,
    traits: ArchitectureTraits,
    args: EngineArgs,
    model: _Model,
    prefill: _Prefill,
) -> _Cache:
    check_positive("block_size", args.block_size)
    check_positive("gpu_memory_utilization", args.gpu_memory_utilization)
    if args.gpu_memory_utilization > 1:
        raise refuses("gpu_memory_utilization: Input should be less than or equal to 1")
    cache_dtype = kv_cache_dtype(args.kv_cache_dtype, model.checkpoint)
    check_packed_cache(cache_dtype, config)
    return _Cache(
        cache_dtype=cache_dtype,
        mamba=mamba_cache(
            args,
            architecture=traits.architecture,
            config=config,
            keeps_states=model.is_hybrid or traits.is_attention_free,
            enable_prefix_caching=prefill.enable_prefix_caching,
            block_size=args.block_size or DEFAULT_BLOCK_SIZE,
            max_model_len=model.max_model_len,
        ),
    )


def _assembled(
    config: HfConfig, traits: ArchitectureTraits, args: EngineArgs, parts: _Parts
) -> ResolvedSettings:
    model, limits, steps, drafter = parts.model, parts.limits, parts.steps, parts.drafter
    tokens = limits.max_num_batched_tokens
    return ResolvedSettings(
        architecture=traits.architecture,
        runner_type=model.runner,
        is_encoder_decoder=traits.is_encoder_decoder,
        is_hybrid=model.is_hybrid,
        use_mla=model.use_mla,
        max_model_len=hooked_max_model_len(
            traits.architecture, model.max_model_len, args.max_model_len
        ),
        original_max_model_len=args.max_model_len,
        dtype=model.dtype,
        cache_dtype=parts.cache.cache_dtype,
        quantization=model.quantization,
        block_size=args.block_size,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        decode_context_parallel_size=args.decode_context_parallel_size,
        prefill_context_parallel_size=args.prefill_context_parallel_size,
        enable_expert_parallel=args.enable_expert_parallel,
        max_num_batched_tokens=tokens,
        max_num_seqs=hooked_max_num_seqs(traits.architecture, limits.max_num_seqs),
        max_num_encoder_input_tokens=tokens,
        max_concurrent_batches=steps.max_concurrent_batches,
        max_in_flight_tokens=steps.max_concurrent_batches * tokens,
        enable_chunked_prefill=parts.prefill.enable_chunked_prefill,
        enable_prefix_caching=hooked_prefix_caching(
            traits.architecture, parts.prefill.enable_prefix_caching
        ),
        async_scheduling=steps.async_scheduling,
        use_v2_model_runner=steps.use_v2_model_runner,
        disable_hybrid_kv_cache_manager=disable_hybrid_kv_cache_manager(args, config, drafter),
        mamba_cache_mode=parts.cache.mamba.mamba_cache_mode,
        mamba_block_size=parts.cache.mamba.mamba_block_size,
        mamba_cache_dtype=parts.cache.mamba.mamba_cache_dtype,
        mamba_ssm_cache_dtype=parts.cache.mamba.mamba_ssm_cache_dtype,
        num_gpu_blocks_override=args.num_gpu_blocks_override,
        gpu_memory_utilization=args.gpu_memory_utilization,
        attention_backend=parts.backend,
        num_speculative_tokens=drafter.num_speculative_tokens
        if drafter is not None
        else diffusion_canvas_length(traits.architecture, config),
        num_prefill_lookahead_tokens=drafter.num_prefill_lookahead_tokens if drafter else 0,
        speculative_method=drafter.method if drafter is not None else None,
        drafter=drafter,
        has_kv_cache_scheme=has_kv_cache_scheme(model.quantization, model.checkpoint),
    )
