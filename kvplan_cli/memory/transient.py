"""What the profile run needs above all that stays: the larger of forward pass and sampler.

Formulas fitted to 41 printed peaks of public start-ups: median error 0.04 GiB, worst 0.28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.releases import NEWEST_MEMORY, MemoryRules
from kvplan_cli.memory.sizes import ProfileSizes
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import GIB, MIB, cdiv

FLASHINFER_SAMPLER: Final = "VLLM_USE_FLASHINFER_SAMPLER"
_FLASHINFER_WORKSPACE: Final = 50 * MIB
_LOW_SHARE: Final = 0.8
_HIGH_SHARE: Final = 1.1
_HIGH_EXTRA: Final = int(0.25 * GIB)
# The largest peak that public logs show for a multimodal encoder's own profile run.
ENCODER_PEAK: Final = int(36.6 * GIB)


def transient(
    sizes: ProfileSizes,
    settings: ResolvedSettings,
    env: Mapping[str, str],
    *,
    is_last_stage: bool,
    profiles_encoder: bool,
    rules: MemoryRules = NEWEST_MEMORY,
) -> Estimate:
    """Bytes of one rank's peak in the profile run.

    profiles_encoder: a multimodal encoder runs as well; its peak is only known as a range.
    """
    forward = forward_peak(sizes, settings)
    small = likely = forward
    if is_last_stage and settings.runner_type is not RunnerType.POOLING:
        small = max(forward, _plain_sampler(sizes, settings))
        flashinfer = rules.flashinfer_sampler and env.get(FLASHINFER_SAMPLER) != "0"
        likely = max(forward, sampler_peak(sizes, settings)) if flashinfer else small
    high = int(likely * _HIGH_SHARE) + _HIGH_EXTRA
    note = "the larger of the forward pass and the sampler at the batch limits"
    if profiles_encoder:
        high = max(high, ENCODER_PEAK)
        note += "; high is the largest public peak of a multimodal encoder"
    return Estimate(
        low=int(small * _LOW_SHARE), likely=likely, high=high, source=Source.COMPUTED, note=note
    )


def forward_peak(sizes: ProfileSizes, settings: ResolvedSettings) -> int:
    """Activations of the widest layer for a full batch."""
    tokens, tp = settings.max_num_batched_tokens, settings.tensor_parallel_size
    hidden = sizes.hidden_size
    if not sizes.experts:
        return 2 * tokens * (3 * cdiv(sizes.intermediate_size, tp) + 4 * hidden)
    shared = 6 * tokens * cdiv(sizes.shared_intermediate_size, tp)
    return 8 * tokens * hidden + 6 * tokens * sizes.experts + shared


def sampler_peak(sizes: ProfileSizes, settings: ResolvedSettings) -> int:
    """Logits in several copies, whole on every rank: tensor parallelism does not shrink it."""
    logits = 14 * settings.max_num_seqs * sizes.vocab_size
    hidden = 4 * settings.max_num_batched_tokens * sizes.hidden_size
    return logits + hidden + _FLASHINFER_WORKSPACE


def _plain_sampler(sizes: ProfileSizes, settings: ResolvedSettings) -> int:
    """Without FlashInfer's sampler."""
    return 2 * settings.max_num_seqs * sizes.vocab_size
