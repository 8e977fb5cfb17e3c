"""How many tokens and sequences one engine step may hold.

Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:get_batch_defaults`` and
``_set_default_max_num_seqs_and_batched_tokens_args``; ``vllm/config/scheduler.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs, UsageContext
from kvplan_cli.gpus import Gpu
from kvplan_cli.settings.expert_parallel import batches_experts
from kvplan_cli.settings.refusal import check_at_least, refuses
from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Limits of one step: T (tokens) and R (sequences)."""

    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CardTier:
    """Defaults of a class of cards: served by the API server, and offline."""

    served_tokens: int
    offline_tokens: int
    max_num_seqs: int

    def limits(self, usage: UsageContext) -> BatchLimits:
        offline = usage is UsageContext.LLM_CLASS
        return BatchLimits(
            max_num_batched_tokens=self.offline_tokens if offline else self.served_tokens,
            max_num_seqs=self.max_num_seqs,
        )


_LARGEST: Final = _CardTier(served_tokens=16384, offline_tokens=16384, max_num_seqs=1024)
_LARGE: Final = _CardTier(served_tokens=8192, offline_tokens=16384, max_num_seqs=1024)
_OTHER: Final = _CardTier(served_tokens=2048, offline_tokens=8192, max_num_seqs=256)
# DGX Spark has the memory of a large card, but not its compute.
_GB10_CAPABILITY: Final = (12, 1)


# Where a card's defaults change: more memory may then mean larger batches.
TIER_BOUNDS: Final = (70 * GIB, 160 * GIB)


def default_limits(gpu: Gpu, usage: UsageContext) -> BatchLimits:
    """The card's defaults, before the model has a word."""
    if gpu.total_memory_bytes >= TIER_BOUNDS[1]:
        return _LARGEST.limits(usage)
    spared = "a100" in gpu.name.lower() or gpu.capability == _GB10_CAPABILITY
    if gpu.total_memory_bytes >= TIER_BOUNDS[0] and not spared:
        return _LARGE.limits(usage)
    return _OTHER.limits(usage)


# Source: vLLM 0.33.0 ``vllm/config/scheduler.py``.
_BATCHED_EXPERTS_TOKENS: Final = 256


def _stretched(card: BatchLimits, args: EngineArgs) -> BatchLimits:
    """The card's defaults as how the engine is run changes them."""
    tokens, seqs = card.max_num_batched_tokens, card.max_num_seqs
    if batches_experts(args):
        tokens = _BATCHED_EXPERTS_TOKENS
    if args.performance_mode == "throughput":
        tokens, seqs = 2 * tokens, 2 * seqs
    return BatchLimits(max_num_batched_tokens=tokens, max_num_seqs=seqs)


def batch_limits(
    args: EngineArgs,
    gpu: Gpu,
    *,
    max_model_len: int,
    enable_chunked_prefill: bool,
    largest_mm_item: int | None = None,
) -> BatchLimits:
    """The limits that flags, card and model give together.

    largest_mm_item: tokens of the largest multimodal item, where it must fit into one step.
    Raises EngineRefusalError where the limits contradict each other.
    """
    default = _stretched(default_limits(gpu, args.usage_context), args)
    seqs = default.max_num_seqs if args.max_num_seqs is None else args.max_num_seqs
    tokens = args.max_num_batched_tokens
    if tokens is None:
        tokens = default.max_num_batched_tokens
        if not enable_chunked_prefill:
            tokens = max(tokens, max_model_len)
        if largest_mm_item is not None:
            tokens = max(tokens, largest_mm_item)
        tokens = min(tokens, seqs * max_model_len)
    if args.max_num_seqs is None:
        seqs = min(seqs, tokens)
    limits = BatchLimits(max_num_batched_tokens=tokens, max_num_seqs=seqs)
    _check(limits, max_model_len, enable_chunked_prefill)
    return limits


def _check(limits: BatchLimits, max_model_len: int, enable_chunked_prefill: bool) -> None:
    tokens, seqs = limits.max_num_batched_tokens, limits.max_num_seqs
    check_at_least("max_num_batched_tokens", tokens, 1)
    check_at_least("max_num_seqs", seqs, 1)
    if tokens < max_model_len and not enable_chunked_prefill:
        raise refuses(
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len "
            f"({max_model_len}). This effectively limits the maximum sequence length to "
            "max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "
            "max_num_batched_tokens or decrease max_model_len."
        )
    if tokens < seqs:
        raise refuses(
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs "
            f"({seqs})."
        )
