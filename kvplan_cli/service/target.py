"""What is planned: workers, their settings, and how their memory is found.

Two kinds of model lead here: one whose config kvplan understands, and layer specs given
outright in a plan file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN, EngineArgs
from kvplan_cli.errors import InputError, MissingFieldError, Problem
from kvplan_cli.gpus import Gpu
from kvplan_cli.grouping.settings import PlannerSettings, max_concurrent_batches
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.draft_model import DRAFT_PLACE, completed_draft
from kvplan_cli.loader.model_source import ModelSource
from kvplan_cli.recall import Call, call
from kvplan_cli.resolution import ResolvedModel, planner_settings, resolve
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.settings.batch import batch_limits
from kvplan_cli.specs import KVCacheSpec, MambaCacheMode
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.loader.given_layers import GivenLayers

GIVEN_LAYERS = "layer specs given outright"
# Length limit of given layers under --max-model-len auto when nothing else bounds it.
_ANY_LENGTH = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The question for the planner.

    model: None with layers given outright. source: the model's source, completed by class
    defaults where they were needed.
    """

    workers: tuple[Mapping[str, KVCacheSpec], ...]
    settings: PlannerSettings
    model: ResolvedModel | None
    source: ModelSource | None
    architecture: str


def find_target(inputs: Inputs, recall: Call = call) -> Target:
    """Resolve the model of the inputs.

    Raises: InputError, UnplannableError, EngineRefusalError.
    """
    if inputs.layers is not None:
        target = _given_target(inputs.layers, inputs.args, inputs.gpu)
        return replace(target, settings=replace(target.settings, rules=inputs.rules))
    return _model_target(inputs, recall)


def completed(
    inputs: Inputs, target: Target, missing: MissingFieldError, recall: Call = call
) -> Inputs:
    """The inputs with class defaults beneath the config that lacks a field, MODEL's or the draft's.

    Weights and buffers may ask for a field that the cache itself does not need.
    """
    if missing.origin == DRAFT_PLACE:
        return replace(inputs, args=completed_draft(inputs.args))
    assert target.source is not None
    return replace(inputs, source=recall(ModelSource.completed, target.source))


def _model_target(inputs: Inputs, recall: Call) -> Target:
    if inputs.source is None:
        raise AssertionError("a plan names a model or gives layers")
    source, args, model = _completed(inputs.source, inputs, recall)
    return Target(
        workers=model.backends.stages,
        settings=planner_settings(model, args),
        model=model,
        source=source,
        architecture=model.traits.architecture,
    )


def _completed(
    source: ModelSource, inputs: Inputs, recall: Call
) -> tuple[ModelSource, EngineArgs, ResolvedModel]:
    """The model, with class defaults beneath its config, and the draft's, where they lack.

    Only then is a config class asked: it costs an import of transformers.
    """
    args = inputs.args
    for _ in range(2):
        try:
            return source, args, _resolved(source, args, inputs, recall)
        except MissingFieldError as error:
            if error.origin == DRAFT_PLACE:
                args = completed_draft(args)
            else:
                source = recall(ModelSource.completed, source)
    return source, args, _resolved(source, args, inputs, recall)


def _resolved(source: ModelSource, args: EngineArgs, inputs: Inputs, recall: Call) -> ResolvedModel:
    config = recall(HfConfig, source.config, source.origin.place)
    return resolve(config, source.extra_files, args, inputs.gpu, inputs.rules, recall)


def _given_target(layers: GivenLayers, args: EngineArgs, gpu: Gpu) -> Target:
    stages = len(layers.stages)
    if args.pipeline_parallel_size not in (1, stages):
        raise InputError(
            Problem(
                where="--pipeline-parallel-size",
                reason=f"{args.pipeline_parallel_size} stages, but the layers are given for "
                f"{stages}",
                way_out="put stage: on the entries under layers, or drop the flag",
            )
        )
    if args.max_model_len is None:
        raise InputError(
            Problem(
                where="--max-model-len",
                reason="layer specs have no length limit of their own",
                way_out="give --max-model-len 131072, or auto for the longest that fits",
            )
        )
    auto_fit = args.max_model_len == AUTO_MAX_MODEL_LEN
    length = _ANY_LENGTH if auto_fit else args.max_model_len
    limits = batch_limits(args, gpu, max_model_len=length, enable_chunked_prefill=True)
    tokens = limits.max_num_batched_tokens
    settings = PlannerSettings(
        max_model_len=length,
        auto_fit=auto_fit,
        block_size=args.block_size or min(_block_sizes(layers)),
        tensor_parallel_size=args.tensor_parallel_size,
        decode_context_parallel_size=args.decode_context_parallel_size,
        max_num_batched_tokens=tokens,
        max_num_encoder_input_tokens=tokens,
        max_concurrent_batches=max_concurrent_batches(
            pipeline_parallel_size=stages, async_scheduling=args.async_scheduling is not False
        ),
        num_gpu_blocks_override=args.num_gpu_blocks_override,
        disable_hybrid_kv_cache_manager=bool(args.disable_hybrid_kv_cache_manager),
        requested_layout=args.env.get("VLLM_KV_CACHE_LAYOUT"),
        enable_prefix_caching=args.enable_prefix_caching is not False,
        mamba_cache_mode=MambaCacheMode(args.mamba_cache_mode or "none"),
    )
    return Target(
        workers=layers.stages,
        settings=settings,
        model=None,
        source=None,
        architecture=GIVEN_LAYERS,
    )


def _block_sizes(layers: GivenLayers) -> set[int]:
    return {spec.block_size for stage in layers.stages for spec in stage.values()}
