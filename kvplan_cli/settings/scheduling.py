"""Model runner, asynchronous scheduling, steps in flight, and the hybrid cache manager.

Source: vLLM 0.33.0 ``vllm/config/vllm.py`` (``use_v2_model_runner``, ``__post_init__``,
``max_concurrent_batches``, ``max_in_flight_tokens``).
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.grouping.settings import max_concurrent_batches
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.drafter import Drafter
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


def scheduling(
    args: EngineArgs, runner: RunnerType, config: HfConfig, drafter: Drafter | None = None
) -> Scheduling:
    """Raises EngineRefusalError for what a model runner cannot do."""
    flag = number_flag(args.env, USE_V2_MODEL_RUNNER)
    unsupported = _unsupported_by_v2(drafter)
    # A machine with a card has Triton, which is all else that the newer runner asks for.
    use_v2 = not unsupported if flag is None else flag
    is_async = _async_scheduling(args, runner, drafter, use_v2=use_v2)
    if use_v2 and unsupported:
        raise refuses(f"Model Runner V2 does not yet support: {', '.join(unsupported)}")
    if not use_v2:
        _check_v1(args, config, drafter)
    batches = max_concurrent_batches(
        pipeline_parallel_size=args.pipeline_parallel_size,
        async_scheduling=is_async,
        use_v2_model_runner=use_v2,
    )
    return Scheduling(
        use_v2_model_runner=use_v2, async_scheduling=is_async, max_concurrent_batches=batches
    )


def _unsupported_by_v2(drafter: Drafter | None) -> list[str]:
    unsupported = []
    if drafter is not None and drafter.parallel_drafting and not drafter.drafts_blocks:
        unsupported.append("parallel drafting for EAGLE speculative decoding")
    if drafter is not None and drafter.use_heterogeneous_vocab:
        unsupported.append("heterogeneous-vocabulary draft models")
    return unsupported


def _async_scheduling(
    args: EngineArgs, runner: RunnerType, drafter: Drafter | None, *, use_v2: bool
) -> bool:
    obstacle = None if use_v2 else _v1_obstacle(args, drafter)
    if args.async_scheduling and obstacle is not None:
        raise refuses(f"Async scheduling is not supported by the V1 model runner with {obstacle}.")
    if args.async_scheduling is not None:
        return args.async_scheduling
    return runner is not RunnerType.POOLING and obstacle is None


def _v1_obstacle(args: EngineArgs, drafter: Drafter | None) -> str | None:
    """What the older runner cannot overlap steps with."""
    if drafter is not None and drafter.method == "ngram":
        return "ngram-based speculative decoding"
    if drafter is not None and drafter.disable_padded_drafter_batch:
        return "disable_padded_drafter_batch=True"
    return "pipeline parallelism" if args.pipeline_parallel_size > 1 else None


def _check_v1(args: EngineArgs, config: HfConfig, drafter: Drafter | None) -> None:
    unsupported = []
    if args.prefill_context_parallel_size > 1:
        unsupported.append("prefill context parallel")
    if drafter is not None:
        unsupported += _unsupported_by_v1(drafter)
    if config.has("canvas_length"):
        unsupported.append("diffusion models")
    if unsupported:
        raise refuses(f"Model Runner V1 does not support: {', '.join(unsupported)}")


def _unsupported_by_v1(drafter: Drafter) -> list[str]:
    names = set(drafter.architectures)
    unsupported = []
    if drafter.method == "dspark":
        unsupported.append("dspark speculative decoding")
    elif not XPRESS.isdisjoint(names):
        unsupported.append("xpress speculative decoding")
    if drafter.method == "dflash" and drafter.config is not None:
        kinds = Language.of(drafter.config).layer_types or ()
        if 0 < sum(kind == SLIDING for kind in kinds) < len(kinds):
            unsupported.append("mixed sliding/full dflash drafts")
        if not _CANDIDATES.isdisjoint(names):
            unsupported.append("DFlash candidate-head drafts")
    return unsupported


XPRESS: Final = frozenset({"Qwen3XPressModel", "DFlashQwen3XPressModel"})
_CANDIDATES: Final = frozenset({"DFlash2DraftModel", "DFlash2BeamDraftModel", "LiLiCorrDraftModel"})


def check_slots(drafter: Drafter | None, max_num_batched_tokens: int) -> None:
    """Raises EngineRefusalError where a step has no room for drafts.

    Source: vLLM 0.33.0 ``vllm/config/vllm.py:_set_max_num_scheduled_tokens``.
    """
    if drafter is None or max_num_batched_tokens > drafter.num_lookahead_tokens:
        return
    raise refuses(
        "VllmConfig does not have enough slots to schedule a token and support the speculative "
        f"decoding settings. Got max_num_batched_tokens={max_num_batched_tokens} and "
        f"num_lookahead_tokens={drafter.num_lookahead_tokens}.",
        way_out=f"raise --max-num-batched-tokens above {drafter.num_lookahead_tokens}",
    )


def disable_hybrid_kv_cache_manager(
    args: EngineArgs, config: HfConfig, drafter: Drafter | None = None
) -> bool:
    """Whether all layers share one size of cache, local ones included.

    Raises EngineRefusalError where the flag asks for what environment or drafter forbid.
    """
    allowed = number_flag(args.env, ALLOW_CHUNKED_WITH_HYBRID)
    forbidden = allowed is False or (drafter is not None and drafter.use_eagle)
    must_disable = forbidden and attention_chunk_size(config) is not None
    if args.disable_hybrid_kv_cache_manager is False and must_disable:
        raise refuses(
            "Hybrid KV cache manager was explicitly enabled but is not supported in this "
            "configuration. Consider omitting the --enable-hybrid-kv-cache-manager flag to let "
            "vLLM decide automatically."
        )
    if args.disable_hybrid_kv_cache_manager is None:
        return must_disable
    return args.disable_hybrid_kv_cache_manager
