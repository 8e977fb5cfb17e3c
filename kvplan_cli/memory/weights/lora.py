"""The room for LoRA adapters on one rank of each stage.

Source: vLLM 0.33.0 ``vllm/lora/model_manager.py:LoRAModelManager._create_lora_modules``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.adapters import Adapters, adapters_only
from kvplan_cli.memory.weights.count import rank_site, rank_stages
from kvplan_cli.memory.weights.registry import describe
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import ModelShape, RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adapted:
    """Which of a class's modules are adapted beside its linears; see ``Adapters``."""

    embedding: bool = False
    head: bool = False
    single: frozenset[str] = frozenset()


_LINEARS: Final = _Adapted()
_EMBEDDING: Final = _Adapted(embedding=True)
_BOTH: Final = _Adapted(embedding=True, head=True)
_MERGED: Final = frozenset({"qkv_proj", "gate_up_proj"})

# Only classes whose room was held against the engine's.
ADAPTED: Final[Mapping[str, _Adapted]] = {
    **dict.fromkeys(
        (
            "Exaone4ForCausalLM",
            "ExaoneForCausalLM",
            "GraniteForCausalLM",
            "LlamaForCausalLM",
            "Lfm2ForCausalLM",
            "MiniCPM3ForCausalLM",
            "MiniCPMForCausalLM",
            "NemotronForCausalLM",
            "Qwen3ForCausalLM",
            "Qwen3VLForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "SolarForCausalLM",
            "Ernie4_5ForCausalLM",
            "ApertusForCausalLM",
        ),
        _BOTH,
    ),
    **dict.fromkeys(
        (
            "CohereForCausalLM",
            "HunYuanDenseV1ForCausalLM",
            "Olmo2ForCausalLM",
            "PhiForCausalLM",
            "SeedOssForCausalLM",
            "SmolLM3ForCausalLM",
            "Starcoder2ForCausalLM",
        ),
        _EMBEDDING,
    ),
    **dict.fromkeys(
        (
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
            "GemmaForCausalLM",
            "Glm4ForCausalLM",
            "MistralForCausalLM",
            "OPTForCausalLM",
            "Qwen2ForCausalLM",
            "Qwen2_5_VLForConditionalGeneration",
        ),
        _LINEARS,
    ),
    "Phi3ForCausalLM": _Adapted(
        embedding=True, head=True, single=frozenset({"qkv_proj", "gate_up_proj"})
    ),
    "ChatGLMModel": _Adapted(single=_MERGED),
    "InternLM2ForCausalLM": _Adapted(single=frozenset({"qkv_proj"})),
}


def lora_tensors(
    config: HfConfig, shape: ModelShape, settings: ResolvedSettings, args: EngineArgs
) -> tuple[Tensors, ...]:
    """Tensors set aside for adapters, for TP rank 0 of each stage; none without --enable-lora.

    Raises UnplannableError for the reason of ``lora_left_out``, EngineRefusalError for a
    vocabulary that the engine does not adapt.
    """
    stages = rank_stages(shape, settings, args)
    if not args.enable_lora:
        return ((),) * len(stages)
    reason = lora_left_out(settings, args)
    if reason is not None:
        raise UnplannableError(Problem(where="--enable-lora", reason=reason))
    text = text_config(config)
    described = describe(settings.architecture, config, text)
    site = replace(rank_site(settings, args), adapters=_adapters(settings, args))
    return tuple(
        adapters_only(
            described.tensors(
                site, config, text, stage, shape.layers, serves=_nothing, with_head=True
            )
        )
        for stage in stages
    )


def _nothing(modality: str) -> bool:
    return False


def lora_left_out(settings: ResolvedSettings, args: EngineArgs) -> str | None:
    """Why the room for adapters can't be counted; None where it can, or there is none."""
    if not args.enable_lora:
        return None
    if settings.architecture not in ADAPTED:
        return f"the adapted modules of {settings.architecture} are not described"
    if settings.runner_type is RunnerType.POOLING:
        return "adapters of pooling models are not described"
    if args.fully_sharded_loras:
        return "fully sharded adapters are not described"
    return None


def _adapters(settings: ResolvedSettings, args: EngineArgs) -> Adapters:
    adapted = ADAPTED[settings.architecture]
    own = args.lora_dtype == "auto"
    return Adapters(
        slots=args.max_loras,
        rank=args.max_lora_rank,
        itemsize=(settings.dtype if own else DType.from_name(args.lora_dtype)).itemsize,
        single=adapted.single,
        embedding=adapted.embedding,
        head=adapted.head,
    )
