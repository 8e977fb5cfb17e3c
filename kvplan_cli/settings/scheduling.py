"""Model runner, asynchronous scheduling, steps in flight, and the hybrid cache manager.

Source: vLLM 0.33.0 ``vllm/config/vllm.py`` (``use_v2_model_runner``, ``__post_init__``,
``max_concurrent_batches``, ``max_in_flight_tokens``).
"""

from __future__ import annotations

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.grouping.settings import max_concurrent_batches
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.environment import (
    ALLOW_CHUNKED_WITH_HYBRID,
    USE_V2_MODEL_RUNNER,
    number_flag,
)
from kvplan_cli.settings.model_hooks import attention_chunk_size
from kvplan_cli.settings.refusal import refuses
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How steps overlap. max_concurrent_batches: steps that may be under way at once."""

    use_v2_model_runner: bool
    async_scheduling: bool
    max_concurrent_batches: int


def scheduling(args: EngineArgs, runner: RunnerType, config: HfConfig) -> Scheduling:
    """Raises EngineRefusalError for what the older model runner cannot do."""
    use_v2 = number_flag(args.env, USE_V2_MODEL_RUNNER)
    # A machine with a card has Triton, which is all that the newer runner asks for here.
    use_v2 = True if use_v2 is None else use_v2
    is_async = _async_scheduling(args, runner, use_v2=use_v2)
    if not use_v2:
        _check_v1(args, config)
    batches = max_concurrent_batches(
        pipeline_parallel_size=args.pipeline_parallel_size,
        async_scheduling=is_async,
        use_v2_model_runner=use_v2,
    )
    return Scheduling(
        use_v2_model_runner=use_v2, async_scheduling=is_async, max_concurrent_batches=batches
    )


def _async_scheduling(args: EngineArgs, runner: RunnerType, *, use_v2: bool) -> bool:
    pipelined_v1 = not use_v2 and args.pipeline_parallel_size > 1
    if args.async_scheduling and pipelined_v1:
        raise refuses(
            "Async scheduling is not supported by the V1 model runner with pipeline parallelism."
        )
    if args.async_scheduling is not None:
        return args.async_scheduling
    return runner is not RunnerType.POOLING and not pipelined_v1


def _check_v1(args: EngineArgs, config: HfConfig) -> None:
    unsupported = []
    if args.prefill_context_parallel_size > 1:
        unsupported.append("prefill context parallel")
    if config.has("canvas_length"):
        unsupported.append("diffusion models")
    if unsupported:
        raise refuses(f"Model Runner V1 does not support: {', '.join(unsupported)}")


def disable_hybrid_kv_cache_manager(args: EngineArgs, config: HfConfig) -> bool:
    """Whether all layers share one size of cache, local ones included.

    Raises EngineRefusalError where the flag asks for what the environment forbids.
    """
    allowed = number_flag(args.env, ALLOW_CHUNKED_WITH_HYBRID)
    must_disable = allowed is False and attention_chunk_size(config) is not None
    if args.disable_hybrid_kv_cache_manager is False and must_disable:
        raise refuses(
            "Hybrid KV cache manager was explicitly enabled but is not supported in this "
            "configuration. Consider omitting the --enable-hybrid-kv-cache-manager flag to let "
            "vLLM decide automatically."
        )
    if args.disable_hybrid_kv_cache_manager is None:
        return must_disable
    return args.disable_hybrid_kv_cache_manager
