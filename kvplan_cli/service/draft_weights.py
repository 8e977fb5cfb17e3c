"""The drafter's part of the weights on the last stage: from headers, else from its config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kvplan_cli.errors import UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.draft_model import DRAFT_PLACE
from kvplan_cli.loader.model_source import ModelSource
from kvplan_cli.loader.sources import resolve_model
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.weights.count import Backends, beside_checkpoint, rank_site, rank_stages
from kvplan_cli.memory.weights.drafters.count import DraftCount, DraftTarget, count_drafter
from kvplan_cli.memory.weights.drafters.own import DraftWeights
from kvplan_cli.memory.weights.drafters.stored import (
    draft_in,
    ends_among,
    is_drafting,
    modules_in,
)
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.stored import StoredModel, StoredTensor, StoredWeights, experts_in
from kvplan_cli.memory.weights.tensors import allocated_bytes, total_bytes
from kvplan_cli.models.drafters.layers import draft_model_shape
from kvplan_cli.models.drafters.modules import own_modules
from kvplan_cli.models.text import text_config
from kvplan_cli.resolution import ResolvedModel
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.service.stored_tensors import stored_tensors
from kvplan_cli.settings.draft_shape import shape_behind
from kvplan_cli.settings.drafter import Drafter

# What repacking may leave of weights whose kernels are not described to the byte.
_MARGIN: Final = 0.03


class _Ends(NamedTuple):
    """Whether a drafter keeps an embedding and a head that it might share."""

    embedding: bool
    head: bool


class _Stored(NamedTuple):
    """What the drafter's checkpoint says: bytes on a rank, tensors, and what it brings."""

    weights: StoredWeights
    tensors: int
    brings: _Ends


def backend_names(model: ResolvedModel) -> Backends:
    """The attention backends of all stages."""
    return frozenset(name for stage in model.backends.backends for name in stage)


def with_drafter(
    weights: Sequence[Estimate], inputs: Inputs, source: ModelSource, model: ResolvedModel
) -> tuple[Estimate, ...]:
    """The target's weights with the drafter's on the last stage.

    Raises: UnplannableError where neither headers nor a description tell them,
    MissingFieldError, InputError for a draft checkpoint that is none.
    """
    drafter = model.settings.drafter
    *others, last = weights
    if drafter is None or drafter.config is None or drafter.num_hidden_states:
        return (*others, last)
    target = DraftTarget(
        config=HfConfig(source.config, source.origin.place),
        shape=model.shape,
        settings=model.settings,
        args=inputs.args,
        extra_files=source.extra_files,
        capability=inputs.gpu.capability,
        backends=backend_names(model),
    )
    stored = _stored(inputs, source, target, drafter)
    try:
        count = count_drafter(target)
    except UnplannableError:
        if stored is None:
            raise
        own = _undescribed(stored, drafter)
    else:
        assert count is not None, "a drafter with a config is counted"
        own = _drafter(count, stored, target, drafter)
    return (*others, _sum(last, own))


def _sum(last: Estimate, own: Estimate) -> Estimate:
    exact = last.source is own.source is Source.EXACT
    return Estimate(
        low=last.low + own.low,
        likely=last.likely + own.likely,
        high=last.high + own.high,
        source=Source.EXACT if exact else Source.COMPUTED,
        note=f"{last.note}; {own.note}",
    )


def _drafter(
    count: DraftCount, stored: _Stored | None, target: DraftTarget, drafter: Drafter
) -> Estimate:
    """The drafter alone."""
    least, likely, most = _choices(count.built, stored, target, drafter)
    low = _bare(count, stored, least)
    high = _bare(count, stored, most) + _rounding(count, most)
    margin = 0 if count.exact else int(high * _MARGIN)
    how = "counted from its config" if stored is None else f"from {stored.tensors} headers"
    if low != _bare(count, stored, most):
        how += "; its embedding and head are the target's unless its checkpoint has others"
    return Estimate(
        low=low,
        likely=_bare(count, stored, likely) + _rounding(count, likely),
        high=high + margin,
        source=Source.COMPUTED if stored is None or stored.weights.unknown else Source.EXACT,
        note=f"with the {drafter.method} drafter, {how}",
    )


def _undescribed(stored: _Stored, drafter: Drafter) -> Estimate:
    size = stored.weights.size_bytes
    return Estimate(
        low=size,
        likely=size,
        high=size + int(size * _MARGIN),
        source=Source.COMPUTED,
        note=f"with the {drafter.method} drafter, from {stored.tensors} headers",
    )


def _bare(count: DraftCount, stored: _Stored | None, ends: _Ends) -> int:
    """Bytes of the drafter's tensors with these ends."""
    built = total_bytes(count.built.tensors(embedding=ends.embedding, head=ends.head))
    if stored is None:
        return built
    own = count.built.layers
    return built - total_bytes(own) + stored.weights.size_bytes + beside_checkpoint(own)


def _rounding(count: DraftCount, ends: _Ends) -> int:
    """What layout and allocator add to the bare tensors."""
    embedding, head = ends
    built = total_bytes(count.built.tensors(embedding=embedding, head=head))
    booked = allocated_bytes(count.loaded.tensors(embedding=embedding, head=head))
    return max(0, booked - built)


def _choices(
    built: DraftWeights, stored: _Stored | None, target: DraftTarget, drafter: Drafter
) -> tuple[_Ends, _Ends, _Ends]:
    """The fewest, likely and most parts of its own.

    An embedding of another width, or a head over other words, can't be the target's. Drafts are
    published with the head that they were trained with, and with a copy of the embedding or none.
    """
    assert drafter.config is not None, "only such drafters are counted"
    widths = {text_config(part).raw("hidden_size") for part in (drafter.config, target.config)}
    wide = len(widths) > 1
    has = _Ends(embedding=True, head=True) if stored is None else stored.brings
    least = _Ends(embedding=wide and has.embedding, head=built.other_words and has.head)
    likely = _Ends(embedding=wide and has.embedding, head=has.head)
    return least, likely, has


def _stored(
    inputs: Inputs, source: ModelSource, target: DraftTarget, drafter: Drafter
) -> _Stored | None:
    """The drafter's tensors by their headers; None where they are not at hand."""
    own, given = bool(target.args.draft_name), target.args.speculative_config or {}
    if not own and given.get("model") is not None:
        return None  # a config without a checkpoint
    tensors = stored_tensors(_draft_source(inputs) if own else source)
    if tensors is None:
        return None
    if drafter.method == "draft_model":
        return _whole_model(tensors, target, drafter)
    found = None
    if drafter.modules is not None:
        # Of a checkpoint that holds the target as well, the modules behind it.
        found = modules_in(tensors, target.shape.num_hidden_layers)
    if found is None and own:
        found = draft_in(tensors)
    if found is None:
        return None
    settings, args = target.settings, target.args
    last = rank_stages(target.shape, settings, args)[-1]
    shape = shape_behind(drafter, target.shape, target.config, len(last.layers))
    heads = max((layer.num_kv_heads for layer in shape.attention_layers), default=1)
    weights = found.on_rank(rank_site(settings, args), drafter.architectures[0], heads)
    brings = _Ends(embedding=found.has_embedding, head=found.has_head)
    return _Stored(weights=weights, tensors=len(found.tensors), brings=brings)


def _whole_model(tensors: Sequence[StoredTensor], target: DraftTarget, drafter: Drafter) -> _Stored:
    """A draft model of its own: what the last stage would have of it."""
    assert drafter.config is not None, "only such drafters are counted"
    shape = draft_model_shape(drafter.config)
    heads = max((layer.num_kv_heads for layer in shape.attention_layers), default=1)
    model = StoredModel(tensors=tuple(tensors), num_kv_heads=heads, num_experts=experts_in(tensors))
    stages = rank_stages(shape, target.settings, target.args)
    weights = model.stages(rank_site(target.settings, target.args), stages)[-1]
    return _Stored(weights=weights, tensors=len(tensors), brings=_Ends(embedding=True, head=True))


def _draft_source(inputs: Inputs) -> ModelSource:
    """The draft model as it was named."""
    given = inputs.args.speculative_config or {}
    return resolve_model(inputs.args.draft_name, revision=given.get("revision"), where=DRAFT_PLACE)


def modules_bytes(target: DraftTarget, names: Sequence[str]) -> int:
    """Bytes in a checkpoint of its own modules, loaded or not; names: of all its tensors.

    0 where it has none, or none that are described.
    """
    named = [name for name in names if is_drafting(name, target.shape.num_hidden_layers)]
    if not named:
        return 0
    try:
        modules = own_modules(target.config)
        if modules is None:
            return 0
        drafter = Drafter(
            method="mtp",
            num_speculative_tokens=len(named),
            config=target.config,
            architectures=(modules.architecture,),
            modules=modules,
        )
        count = count_drafter(replace(target, settings=replace(target.settings, drafter=drafter)))
    except UnplannableError:
        return 0
    assert count is not None, "a drafter with a config is counted"
    own = count.built.layers
    whole = total_bytes(own) - beside_checkpoint(own)
    words, width = size(text_config(target.config), "vocab_size"), target.settings.dtype.itemsize
    table = words * size(text_config(target.config), "hidden_size") * width
    return whole + sum(ends_among(named)) * table
