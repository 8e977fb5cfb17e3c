"""Buffers that the model runner and the experts' kernels keep for good.

Shapes from the engine's source, checked against public start-up logs of 0.19 to 0.31.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.releases import NEWEST_MEMORY, MemoryRules
from kvplan_cli.memory.runner_buffers import RankState, runner_bytes
from kvplan_cli.memory.sizes import ProfileSizes
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import cdiv

_BYTES_PER_REQUEST: Final = 18_227  # 17.8 KiB of block tables and request state
_BYTES_PER_TOKEN: Final = 13
# Experts in MXFP4 run on kernels that keep no workspace of this kind on Hopper.
_NO_WORKSPACE: Final = frozenset({"gpt_oss_mxfp4", "mxfp4"})


def persistent_buffers(
    sizes: ProfileSizes,
    settings: ResolvedSettings,
    *,
    state: RankState,
    drafting: int = 0,
    rules: MemoryRules = NEWEST_MEMORY,
) -> Estimate:
    """Bytes of one rank's lasting buffers, beside weights and KV cache. drafting: those of a
    drafter that it runs."""
    runner = 0
    if rules.lasting_buffers:
        runner = drafting + _of_runner(sizes, settings, state)
    workspace = moe_workspace(sizes, settings)
    likely = 0 if settings.quantization in _NO_WORKSPACE else workspace
    return Estimate(
        low=runner,
        likely=runner + likely,
        high=runner + workspace,
        source=Source.COMPUTED,
        note=_note(workspace, state, drafting),
    )


def _note(workspace: int, state: RankState, drafting: int) -> str:
    parts = ["request state and sampling buffers" if state.is_last_stage else "request state"]
    if not state.is_first_stage:
        parts.append("hand-over between stages")
    parts += ["input embeddings"] * (state.kept.embeds_inputs and state.is_first_stage)
    parts += ["the indexers' choices"] * bool(state.kept.index_topk)
    parts += ["the drafter's buffers"] * bool(drafting)
    parts += ["fused-MoE workspace"] * bool(workspace)
    return ", ".join(parts)


def _of_runner(sizes: ProfileSizes, settings: ResolvedSettings, state: RankState) -> int:
    if settings.use_v2_model_runner:
        return runner_bytes(sizes, settings, state)
    return _of_older_runner(sizes, settings, is_last_stage=state.is_last_stage)


def _of_older_runner(
    sizes: ProfileSizes, settings: ResolvedSettings, *, is_last_stage: bool
) -> int:
    requests, tokens = settings.max_num_seqs, settings.max_num_batched_tokens
    if not is_last_stage:
        return 4 * tokens * sizes.hidden_size
    state = requests * _BYTES_PER_REQUEST + tokens * _BYTES_PER_TOKEN
    if settings.runner_type is RunnerType.POOLING:
        return state
    vocabulary = sizes.vocab_size
    penalties = 4 * requests * vocabulary
    bitmask = 2 * requests * cdiv(vocabulary, 32) * 4
    return penalties + bitmask + state


def moe_workspace(sizes: ProfileSizes, settings: ResolvedSettings) -> int:
    """Bytes that the fused experts' kernels write between their two products."""
    if not sizes.experts:
        return 0
    inner = sizes.expert_intermediate_size
    if not settings.enable_expert_parallel:
        inner = cdiv(inner, settings.tensor_parallel_size)
    widths = max(inner, sizes.hidden_size) + max(2 * inner, sizes.hidden_size)
    return 2 * settings.max_num_batched_tokens * sizes.experts_per_token * widths
