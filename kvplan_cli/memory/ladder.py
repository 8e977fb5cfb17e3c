"""From a card's memory to what is left for the KV cache, rank by rank.

Source: vLLM 0.33.0 ``v1/worker/gpu_worker.py:determine_available_memory``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.budget import BudgetLine, Estimate, RankBudget, Source
from kvplan_cli.memory.buffers import persistent_buffers
from kvplan_cli.memory.outside import cuda_graphs, outside_allocator
from kvplan_cli.memory.releases import NEWEST_MEMORY, MemoryRules
from kvplan_cli.memory.runner_buffers import Kept, RankState, kept_beside
from kvplan_cli.memory.sizes import ProfileSizes, profile_sizes
from kvplan_cli.memory.transient import transient
from kvplan_cli.memory.weights.lora import lora_left_out
from kvplan_cli.memory.weights.modalities import loads_towers
from kvplan_cli.models.shape import ArchitectureTraits, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.environment import PP_LAYER_PARTITION
from kvplan_cli.settings.pipeline import stage_layers
from kvplan_cli.settings.resolved import ResolvedSettings


def rank_budgets(
    gpu: Gpu,
    config: HfConfig,
    shape: ModelShape,
    traits: ArchitectureTraits,
    settings: ResolvedSettings,
    args: EngineArgs,
    weights: tuple[Estimate, ...],
    rules: MemoryRules = NEWEST_MEMORY,
) -> tuple[RankBudget, ...]:
    """The ladder of each pipeline stage's ranks, first stage first.

    config: the whole config.json. weights: bytes of one rank of each stage. rules: what the
    release accounts for. Raises
    MissingFieldError for a size that the config does not have, ValueError when ``weights``
    are not one a stage.
    """
    ranges = stage_layers(
        shape.num_hidden_layers,
        settings.pipeline_parallel_size,
        args.env.get(PP_LAYER_PARTITION),
    )
    if len(weights) != len(ranges):
        raise ValueError(f"{len(weights)} weights for {len(ranges)} pipeline stages")
    sizes = profile_sizes(text_config(config))
    kept = kept_beside(config, traits, settings, args)
    last = len(ranges) - 1
    budgets = []
    for stage, (layers, of_weights) in enumerate(zip(ranges, weights, strict=True)):
        encoder = stage == 0 and profiles_encoder(traits, args)
        estimates = {
            "weights": of_weights,
            "persistent_buffers": persistent_buffers(
                sizes,
                settings,
                state=RankState(
                    is_first_stage=stage == 0,
                    is_last_stage=stage == last,
                    kept=kept,
                    caches=tuple(each for each in shape.layers if each.decoder_layer in layers),
                ),
                drafting=_drafting(sizes, settings, args, kept) if stage == last else 0,
                rules=rules,
            ),
            "outside_allocator": outside_allocator(gpu, settings, rules),
            "transient": transient(
                sizes,
                settings,
                args.env,
                is_last_stage=stage == last,
                profiles_encoder=encoder,
                rules=rules,
            ),
            "cuda_graphs": cuda_graphs(len(layers), gpu, settings, args, rules),
        }
        reason = _reason(config, traits, settings, encoder) or _adapters(
            config, of_weights, settings, args
        )
        budgets.append(budget_of(stage, gpu, settings, estimates, measure_it=reason))
    return tuple(budgets)


def _drafting(sizes: ProfileSizes, settings: ResolvedSettings, args: EngineArgs, kept: Kept) -> int:
    if settings.drafter is None or not settings.use_v2_model_runner:
        return 0
    # Imported rarely: most plans have no drafter.
    from kvplan_cli.memory.drafting_buffers import drafting_bytes

    return drafting_bytes(sizes, settings, args, kept)


def budget_of(
    stage: int,
    gpu: Gpu,
    settings: ResolvedSettings,
    estimates: Mapping[str, Estimate],
    *,
    measure_it: str | None,
) -> RankBudget:
    """One stage's ladder from its lines by name, each in bytes of one rank.

    The least is left when every line is at its highest.
    """
    requested = requested_bytes(gpu.total_memory_bytes, settings.gpu_memory_utilization)
    taken = tuple(estimates.values())
    available = Estimate(
        low=requested - sum(each.high for each in taken),
        likely=requested - sum(each.likely for each in taken),
        high=requested - sum(each.low for each in taken),
        source=Source.COMPUTED,
        note="requested memory less every line",
    )
    return RankBudget(
        stage=stage,
        total_memory_bytes=gpu.total_memory_bytes,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        requested_bytes=requested,
        lines=tuple(
            BudgetLine(name=name, bytes_per_rank=estimate) for name, estimate in estimates.items()
        ),
        available=available,
        measure_it=measure_it,
    )


def requested_bytes(total_memory_bytes: int, gpu_memory_utilization: float) -> int:
    """What the engine may use of a card.

    Source: vLLM 0.33.0 ``v1/worker/utils.py:request_memory``.
    """
    return math.ceil(total_memory_bytes * gpu_memory_utilization)


def profiles_encoder(traits: ArchitectureTraits, args: EngineArgs) -> bool:
    """Whether the profile run sends dummy images, audio or video through an encoder."""
    return (
        traits.is_multimodal
        and not args.skip_mm_profiling
        and loads_towers(args, traits.architecture)
    )


def _adapters(
    config: HfConfig, weights: Estimate, settings: ResolvedSettings, args: EngineArgs
) -> str | None:
    """Why the room for LoRA adapters is missing in the weights, None where it is in them."""
    if weights.source in (Source.GIVEN, Source.MEASURED):
        return None
    left_out = lora_left_out(config, settings, args)
    if left_out is None:
        return None
    return f"the room for LoRA adapters is left out ({left_out}): measure it"


def _reason(
    config: HfConfig, traits: ArchitectureTraits, settings: ResolvedSettings, encoder: bool
) -> str | None:
    """Why no single number may be shown, None where one may."""
    if settings.drafter is not None and settings.drafter.caches:
        return (
            "the drafter's part of the profile run and its CUDA graphs are only known as a range: "
            "measure it"
        )
    if encoder:
        return (
            "the multimodal encoder's profile run takes 5.5 to 36.6 GiB in public logs: "
            "measure it, or skip it with --skip-mm-profiling"
        )
    if traits.is_hybrid or settings.is_hybrid:
        return "state layers' workspaces are not modelled: measure it"
    if text_config(config).has("index_topk"):
        return "the sparse-attention indexer's workspace is not modelled: measure it"
    if settings.num_speculative_tokens or settings.speculative_method is not None:
        return "speculative decoding's part of the profile run is not modelled: measure it"
    return None
