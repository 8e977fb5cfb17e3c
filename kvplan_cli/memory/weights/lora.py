"""The room for LoRA adapters on one rank of each stage.

Source: vLLM 0.33.0 ``vllm/lora/model_manager.py:LoRAModelManager._create_lora_modules``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.adapted import Adapted, adapted_modules
from kvplan_cli.memory.weights.adapters import Adapters, adapters_only
from kvplan_cli.memory.weights.count import rank_site, rank_stages
from kvplan_cli.memory.weights.registry import describe, inner_architecture
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import ModelShape, RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.parallel_rules import has_experts
from kvplan_cli.settings.resolved import ResolvedSettings

# Formats whose experts keep their sizes in every kernel.
_UNPADDED: Final = frozenset({None, "fp8", "awq", "awq_marlin", "gptq", "gptq_marlin"})


def lora_tensors(
    config: HfConfig, shape: ModelShape, settings: ResolvedSettings, args: EngineArgs
) -> tuple[Tensors, ...]:
    """Tensors set aside for adapters, for TP rank 0 of each stage; none without --enable-lora.

    Raises UnplannableError for the reason of ``lora_left_out``, EngineRefusalError for a
    vocabulary that the engine does not adapt, and for experts shared out in two ways.
    """
    stages = rank_stages(shape, settings, args)
    if not args.enable_lora:
        return ((),) * len(stages)
    adapted = _adapted(config, settings)
    reason = lora_left_out(config, settings, args)
    if reason is not None or adapted is None:
        raise UnplannableError(Problem(where="--enable-lora", reason=str(reason)))
    _check_experts(config, settings, args)
    text = text_config(config)
    described = describe(settings.architecture, config, text)
    site = replace(rank_site(settings, args), adapters=_adapters(adapted, settings, args))
    head = settings.runner_type is not RunnerType.POOLING
    return tuple(
        adapters_only(
            described.tensors(
                site, config, text, stage, shape.layers, serves=_nothing, with_head=head
            )
        )
        for stage in stages
    )


def lora_left_out(config: HfConfig, settings: ResolvedSettings, args: EngineArgs) -> str | None:
    """Why the room for adapters can't be counted; None where it can, or there is none."""
    if not args.enable_lora:
        return None
    if _adapted(config, settings) is None:
        return f"the adapted modules of {settings.architecture} are not described"
    if settings.quantization not in _UNPADDED and has_experts(text_config(config)):
        return f"adapters beside experts in {settings.quantization} are not described"
    return None


def _adapted(config: HfConfig, settings: ResolvedSettings) -> Adapted | None:
    architecture = settings.architecture
    try:
        inner = inner_architecture(architecture, config, text_config(config))
    except UnplannableError:
        return None
    return adapted_modules(architecture, inner)


def _check_experts(config: HfConfig, settings: ResolvedSettings, args: EngineArgs) -> None:
    """Source: vLLM 0.33.0 ``lora/layers/fused_moe.py:FusedMoEWithLoRA._verify_ep_fs``."""
    whole = settings.enable_expert_parallel and settings.tensor_parallel_size > 1
    if whole and args.fully_sharded_loras and has_experts(text_config(config)):
        raise EngineRefusalError(
            stage="model_error",
            error_type="AssertionError",
            message="Fused MoE LoRA does not support enable_expert_parallel=True together with "
            "fully_sharded_loras=True. Disable one of them.",
            way_out="drop --fully-sharded-loras",
        )


def _nothing(modality: str) -> bool:
    """Encoders are not adapted: without --enable-tower-connector-lora they never are."""
    return False


def _adapters(adapted: Adapted, settings: ResolvedSettings, args: EngineArgs) -> Adapters:
    own = args.lora_dtype == "auto"
    return Adapters(
        slots=args.max_loras,
        rank=args.max_lora_rank,
        itemsize=(settings.dtype if own else DType.from_name(args.lora_dtype)).itemsize,
        fully_sharded=args.fully_sharded_loras,
        single=adapted.single,
        bare=adapted.bare,
        embedding=adapted.embedding,
        head=adapted.head,
        one_up=adapted.one_up,
    )
