"""Weights of a rank of each stage: from headers, an index, or the config.

The first that is at hand counts: the checkpoint's own tensors, shared out as the count where
both agree on the whole, else by the names of modules; the index's total in the proportions of
the count; the count alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.checkpoint import index_bytes, index_names
from kvplan_cli.loader.model_source import ModelSource
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.weights.count import (
    beside_checkpoint,
    builds_head,
    count_weights,
    ends_of,
    of_checkpoint,
    padding_bytes,
    rank_site,
    rank_stages,
    rank_tensors,
    tower_share,
)
from kvplan_cli.memory.weights.drafters.count import DraftTarget
from kvplan_cli.memory.weights.lora import lora_left_out, lora_tensors
from kvplan_cli.memory.weights.stored import (
    StoredModel,
    StoredTensor,
    StoredWeights,
    experts_in,
)
from kvplan_cli.memory.weights.tensors import Tensors, allocated_bytes, on_card, total_bytes
from kvplan_cli.models.text import text_config
from kvplan_cli.resolution import ResolvedModel
from kvplan_cli.service.draft_weights import backend_names, modules_bytes, with_drafter
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.stored_tensors import stored_tensors
from kvplan_cli.settings.resolved import ResolvedSettings

# What repacking may leave of weights whose family is not described.
_UNDESCRIBED_MARGIN = 0.03
_MOST_NAMES = 4
# Headers agree with the count where they are no further apart than one part in so many.
_AGREEMENT = 1000


def rank_weights(inputs: Inputs, source: ModelSource, model: ResolvedModel) -> tuple[Estimate, ...]:
    """Bytes of weights on one rank of each stage, the drafter's on the last,
    with the room for LoRA adapters.

    Raises: as ``_target_weights``.
    """
    weights = _target_weights(inputs, source, model)
    if model.settings.drafter is not None:
        weights = with_drafter(weights, inputs, source, model)
    return _with_adapters(weights, inputs, source, model)


def _with_adapters(
    weights: tuple[Estimate, ...], inputs: Inputs, source: ModelSource, model: ResolvedModel
) -> tuple[Estimate, ...]:
    """The weights with the room for LoRA adapters, where it can be counted."""
    args, settings = inputs.args, model.settings
    config = HfConfig(source.config, source.origin.place)
    if not args.enable_lora or lora_left_out(config, settings, args) is not None:
        return weights
    return tuple(
        _beside(estimate, room, args)
        for estimate, room in zip(
            weights, lora_tensors(config, model.shape, settings, args), strict=True
        )
    )


def _beside(weights: Estimate, room: Tensors, args: EngineArgs) -> Estimate:
    size, booked = total_bytes(room), allocated_bytes(room)
    slots = f"max_loras {args.max_loras}, rank {args.max_lora_rank}"
    return replace(
        weights,
        low=weights.low + size,
        likely=weights.likely + booked,
        high=weights.high + booked,
        note=f"{weights.note}; with {size:,} bytes for LoRA ({slots})",
    )


def _target_weights(
    inputs: Inputs, source: ModelSource, model: ResolvedModel
) -> tuple[Estimate, ...]:
    """Bytes of the model's own weights on one rank of each stage.

    Raises: UnplannableError where neither the checkpoint nor the config tells them,
    MissingFieldError, EngineRefusalError, InputError for files that are no checkpoint.
    """
    config = HfConfig(source.config, source.origin.place)
    counted: tuple[Estimate, ...] | UnplannableError
    try:
        counted = _counted(inputs, source, model, config)
    except UnplannableError as error:
        counted = error
    tensors = stored_tensors(source)
    if tensors is not None:
        known = None if isinstance(counted, UnplannableError) else counted
        return _from_tensors(tensors, inputs, source, model, config, known)
    total = index_bytes(source.checkpoint) if source.checkpoint else None
    if isinstance(counted, UnplannableError):
        if total is None or not _alone(model):
            raise counted
        return (Estimate.certain(total, Source.COMPUTED, "all tensors of the checkpoint's index"),)
    if total is None:
        return counted
    return _in_proportion(total, counted, inputs, source, model, config)


def _counted(
    inputs: Inputs, source: ModelSource, model: ResolvedModel, config: HfConfig
) -> tuple[Estimate, ...]:
    return count_weights(
        config,
        model.shape,
        model.settings,
        inputs.args,
        source.extra_files,
        inputs.gpu.capability,
        backend_names(model),
    )


def _alone(model: ResolvedModel) -> bool:
    return model.num_workers == 1 and model.settings.tensor_parallel_size == 1


def _from_tensors(
    tensors: Sequence[StoredTensor],
    inputs: Inputs,
    source: ModelSource,
    model: ResolvedModel,
    config: HfConfig,
    counted: tuple[Estimate, ...] | None,
) -> tuple[Estimate, ...]:
    """Each stage's share of the tensors, and what stands beside them in the modules."""
    stored = _stored_model(tensors, inputs, source, model, config)
    args, settings = inputs.args, model.settings
    held = stored.stages(rank_site(settings, args), rank_stages(model.shape, settings, args))
    if counted is None:
        return tuple(_undescribed(weights, len(tensors)) for weights in held)
    if _agree(stored, inputs, source, model, config):
        return tuple(_agreed(count, len(tensors)) for count in counted)
    given = (config, model.shape, settings, args, source.extra_files)
    built = rank_tensors(*given, inputs.gpu.capability, backend_names(model))
    return tuple(
        _described(weights, len(tensors), beside_checkpoint(stage), count)
        for weights, stage, count in zip(held, built, counted, strict=True)
    )


def _stored_model(
    tensors: Sequence[StoredTensor],
    inputs: Inputs,
    source: ModelSource,
    model: ResolvedModel,
    config: HfConfig,
) -> StoredModel:
    heads = [layer.num_kv_heads for layer in model.shape.attention_layers]
    return StoredModel(
        tensors=tuple(tensors),
        num_kv_heads=max(heads, default=1),
        num_experts=experts_in(tensors),
        tower_share=tower_share(config, model.settings, inputs.args, source.extra_files),
        ends=ends_of(config, model.settings),
        builds_head=builds_head(config, model.settings),
    )


def _agree(
    stored: StoredModel, inputs: Inputs, source: ModelSource, model: ResolvedModel, config: HfConfig
) -> bool:
    """Whether the tensors sum up to the config's count of a whole model, or to that of its
    language part: the engine leaves parts of an encoder out that a checkpoint has."""
    language = replace(inputs.args, language_model_only=True)
    return any(
        _agree_on(stored, args, inputs, source, model, config) for args in (inputs.args, language)
    )


def _agree_on(
    stored: StoredModel,
    args: EngineArgs,
    inputs: Inputs,
    source: ModelSource,
    model: ResolvedModel,
    config: HfConfig,
) -> bool:
    """The same in bytes or in elements: the engine keeps some in another type than the file, or
    quantizes all of them."""
    try:
        tensors = _whole_model(args, source, model, config, inputs.gpu.capability)
    except (UnplannableError, EngineRefusalError):
        return False
    counted = of_checkpoint(on_card(tensors))
    alone, one = _alone_on(model.settings), _of_one(args)
    share = tower_share(config, alone, one, source.extra_files)
    all_of_it = replace(stored, tower_share=share)
    site, stages = rank_site(alone, one), rank_stages(model.shape, alone, one)
    if _near(all_of_it.stages(site, stages)[0].size_bytes, total_bytes(counted)):
        return True
    elements = all_of_it.counting_elements().stages(site, stages)[0].size_bytes
    return _near(elements, sum(tensor.elements for tensor in counted))


def _near(found: int, counted: int) -> bool:
    return abs(found - counted) * _AGREEMENT <= counted


def _agreed(count: Estimate, tensors: int) -> Estimate:
    """What the config's modules take, which the headers confirm."""
    note = f"as counted from the config; the headers of {tensors} tensors sum up to it"
    return replace(count, source=Source.EXACT, note=note)


def _described(weights: StoredWeights, tensors: int, beside: int, count: Estimate) -> Estimate:
    """The headers' bytes; layout and rounding as counted."""
    low = weights.size_bytes + beside
    likely = low + count.likely - count.low
    return Estimate(
        low=low,
        likely=likely,
        high=likely + count.high - count.likely,
        source=Source.COMPUTED if weights.unknown else Source.EXACT,
        note=_note(weights, tensors),
    )


def _undescribed(weights: StoredWeights, tensors: int) -> Estimate:
    size = weights.size_bytes
    return Estimate(
        low=size,
        likely=size,
        high=size + int(size * _UNDESCRIBED_MARGIN),
        source=Source.COMPUTED,
        note=_note(weights, tensors) + "; tables beside the checkpoint are not in it",
    )


def _note(weights: StoredWeights, tensors: int) -> str:
    note = f"from the headers of {tensors} tensors, shared out by the engine's rules"
    if not weights.unknown:
        return note
    names = ", ".join(weights.unknown[:_MOST_NAMES])
    more = len(weights.unknown) - _MOST_NAMES
    return f"{note}; counted whole, for no rule names them: {names}" + (
        f" and {more} more" if more > 0 else ""
    )


def _in_proportion(
    total: int,
    counted: Sequence[Estimate],
    inputs: Inputs,
    source: ModelSource,
    model: ResolvedModel,
    config: HfConfig,
) -> tuple[Estimate, ...]:
    """The index's total, shared out as the count is; the count where there is no whole."""
    try:
        whole = _indexed_count(inputs.args, source, model, config, inputs.gpu.capability)
    except (UnplannableError, EngineRefusalError):
        return tuple(counted)
    if _near(total, whole):
        note = f"as counted from the config; the index's total of {total:,} bytes agrees with it"
        return tuple(replace(count, note=note) for count in counted)
    note = f"the index's total of {total:,} bytes, shared out as the config's count"

    def scaled(size: int) -> int:
        return size * total // whole

    return tuple(
        Estimate(
            low=scaled(count.low),
            likely=scaled(count.likely),
            high=scaled(count.high),
            source=Source.COMPUTED,
            note=note,
        )
        for count in counted
    )


def _indexed_count(
    args: EngineArgs,
    source: ModelSource,
    model: ResolvedModel,
    config: HfConfig,
    capability: tuple[int, int],
) -> int:
    """The whole of it with the modules that draft, where the index has any."""
    target = DraftTarget(
        config=config,
        shape=model.shape,
        settings=_alone_on(model.settings),
        args=replace(_of_one(args), speculative_config=None),
        extra_files=source.extra_files,
        capability=capability,
    )
    names = index_names(source.checkpoint) if source.checkpoint is not None else ()
    tensors = of_checkpoint(_whole_model(args, source, model, config, capability))
    whole = total_bytes(tensors) - padding_bytes(tensors, text_config(config))
    return whole + modules_bytes(target, names)


def _whole_model(
    args: EngineArgs,
    source: ModelSource,
    model: ResolvedModel,
    config: HfConfig,
    capability: tuple[int, int],
) -> Tensors:
    """The model's tensors on one rank, as counted."""
    alone, one = _alone_on(model.settings), _of_one(args)
    (tensors,) = rank_tensors(config, model.shape, alone, one, source.extra_files, capability)
    return tensors


def _alone_on(settings: ResolvedSettings) -> ResolvedSettings:
    return replace(
        settings,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        prefill_context_parallel_size=1,
        enable_expert_parallel=False,
    )


def _of_one(args: EngineArgs) -> EngineArgs:
    env = {name: value for name, value in args.env.items() if name != _PARTITION}
    return replace(args, data_parallel_size=1, env=env)


_PARTITION = "VLLM_PP_LAYER_PARTITION"
