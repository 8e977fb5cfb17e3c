"""Weights of the drafter that speculative decoding asks for, counted from its config.

Source: vLLM 0.33.0 ``vllm/v1/worker/gpu/spec_decode/*/utils.py``: the last pipeline stage loads
it, shared out over the target's tensor parallel ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.count import (
    NO_BACKENDS,
    Backends,
    loaded_tensors,
    rank_site,
    rank_stages,
    rank_tensors,
)
from kvplan_cli.memory.weights.drafters.blocks import BLOCKS
from kvplan_cli.memory.weights.drafters.context import context_copies
from kvplan_cli.memory.weights.drafters.correctors import lilicorr, xpress, xpress_copies
from kvplan_cli.memory.weights.drafters.family_heads import FAMILY_HEADS
from kvplan_cli.memory.weights.drafters.heads import HEADS
from kvplan_cli.memory.weights.drafters.modules import MODULES
from kvplan_cli.memory.weights.drafters.nemotron_h import nemotron_h
from kvplan_cli.memory.weights.drafters.own import DraftWeights
from kvplan_cli.memory.weights.drafters.place import DraftPlace, Tables, block_path, tables_of
from kvplan_cli.memory.weights.latent import copies
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.quantization import Scheme
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.registry import describe
from kvplan_cli.memory.weights.schemes import ExtraFiles, scheme_of, unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.drafters.layers import draft_model_shape
from kvplan_cli.models.latent import keeps_latent_vectors
from kvplan_cli.models.shape import CacheLayer, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.draft_shape import shape_behind
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass

_REFINED: Final = ("DFlashQwen3XPressModel", "Qwen3XPressModel")
_DRAFTERS: Final[Mapping[str, Callable[[DraftPlace], DraftWeights]]] = {
    **MODULES,
    "NemotronHMTPModel": nemotron_h,
    **HEADS,
    **BLOCKS,
    **FAMILY_HEADS,
    **dict.fromkeys(_REFINED, xpress),
    "LiLiCorrDraftModel": lilicorr,
}
# Heads that the engine builds under the target's quantization.
_OF_TARGET: Final = frozenset(
    {"EagleDeepSeekMTPModel", "EagleMiniCPMForCausalLM"}
    | {"DSparkDraftModel", "DSparkV41DraftModel"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCount:
    """A drafter right after construction, and once kernels have laid its weights out.

    exact: whether the layout is known to the byte.
    """

    built: DraftWeights
    loaded: DraftWeights
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTarget:
    """The model that a drafter stands beside, as ``rank_tensors`` takes it."""

    config: HfConfig
    shape: ModelShape
    settings: ResolvedSettings
    args: EngineArgs
    extra_files: ExtraFiles
    capability: tuple[int, int]
    backends: Backends = NO_BACKENDS


def count_drafter(target: DraftTarget) -> DraftCount | None:
    """The drafter of the settings on TP rank 0 of the last stage; None where nothing is loaded.

    Raises UnplannableError for a drafter or quantization that is not described,
    MissingFieldError for a size that the config does not have.
    """
    drafter = target.settings.drafter
    if drafter is None or drafter.config is None or not drafter.architectures:
        return None
    if drafter.num_hidden_states:
        return _extraction(rank_site(target.settings, target.args))
    if drafter.method == "draft_model":
        return _draft_model(target, drafter, drafter.config)
    scheme = _scheme(target, drafter, drafter.config)
    return DraftCount(
        built=_weights(target, drafter, scheme, unfolds=False),
        loaded=_weights(target, drafter, scheme.repacked(), unfolds=True),
        exact=scheme.exact,
    )


def _extraction(site: Site) -> DraftCount:
    """No weights, but the factors of the layer that keeps the states."""
    held = DraftWeights(layers=cache_scales(site))
    return DraftCount(built=held, loaded=held, exact=True)


def _scheme(target: DraftTarget, drafter: Drafter, config: HfConfig) -> Scheme:
    of_target = not _OF_TARGET.isdisjoint(drafter.architectures)
    if of_target or (drafter.modules is not None and config is target.config):
        config, files = target.config, target.extra_files
        quantization = target.settings.quantization
    else:
        files, quantization = target.args.draft_files, drafter.quantization
    return scheme_of(config, text_config(config), quantization, files, target.capability)


def _weights(
    target: DraftTarget, drafter: Drafter, scheme: Scheme, *, unfolds: bool
) -> DraftWeights:
    name = next((name for name in drafter.architectures if name in _DRAFTERS), None)
    if name is None:
        raise unknown(
            f"the weights of {drafter.architectures[0]} are not described", "--speculative-config"
        )
    place = _place(target, drafter, scheme)
    made = _DRAFTERS[name](place)
    if not unfolds:
        return made
    layers = [layer for block in place.blocks for layer in block]
    unfolded = _unfolded(layers, target) if target.settings.use_mla else ()
    copied = context_copies(name, place) + (xpress_copies(place) if name in _REFINED else ())
    return replace(made, layers=made.layers + unfolded + copied)


def _unfolded(layers: Iterable[CacheLayer], target: DraftTarget) -> Tensors:
    settings = target.settings
    ranks, itemsize = settings.tensor_parallel_size, settings.dtype.itemsize
    latent = ModelShape(architecture="", num_hidden_layers=0, layers=tuple(layers)).latent_layers
    return tuple(tensor for layer in latent for tensor in copies(layer, ranks, itemsize))


def _place(target: DraftTarget, drafter: Drafter, scheme: Scheme) -> DraftPlace:
    assert drafter.config is not None, "only such drafters are counted"
    settings, config = target.settings, drafter.config
    stage = rank_stages(target.shape, settings, target.args)[-1]
    shape = shape_behind(drafter, target.shape, target.config, len(stage.layers))
    part = text_config if drafter.modules is None else drafter.modules.part
    target_text = text_config(target.config)
    described = describe(settings.architecture, target.config, target_text)
    return DraftPlace(
        site=replace(
            rank_site(settings, target.args),
            scheme=scheme,
            capability=target.capability,
            backends=target.backends,
        ),
        config=config,
        text=_stretched(part(config), drafter, settings.max_model_len),
        blocks=_by_block(shape.layers),
        first_number=target.shape.num_hidden_layers,
        pipelined=settings.pipeline_parallel_size > 1,
        tables=_target_tables(target),
        target_vocab_size=size(target_text, "vocab_size"),
        target_hidden_size=size(target_text, "hidden_size"),
        decoder=described.decoder,
        parallel_drafting=drafter.parallel_drafting,
        quantization=drafter.quantization,
    )


def _by_block(layers: Iterable[CacheLayer]) -> tuple[tuple[CacheLayer, ...], ...]:
    """The caches of each decoder layer."""
    return tuple(tuple(block) for _, block in groupby(layers, key=lambda at: block_path([at])))


def _stretched(text: HfConfig, drafter: Drafter, max_model_len: int) -> HfConfig:
    """The config with positions for the target's length, where the engine raises them.

    Source: vLLM 0.33.0 ``config/speculative.py:_maybe_override_draft_max_position_embeddings``.
    """
    positions = text.optional_integer("max_position_embeddings")
    if not drafter.shares_positions or positions is None or positions >= max_model_len:
        return text
    values = {**text.values, "max_position_embeddings": max_model_len}
    return HfConfig(values, text.origin, text.path)


def _target_tables(target: DraftTarget) -> Tables:
    """Rotary tables that the target's layers on the last stage have."""
    stage = rank_stages(target.shape, target.settings, target.args)[-1]
    layers = [layer for layer in target.shape.layers if layer.decoder_layer in stage.layers]
    text = text_config(target.config)
    decoder = describe(target.settings.architecture, target.config, text).decoder
    return tables_of(decoder.rope, text, layers, rank_site(target.settings, target.args))


def _draft_model(target: DraftTarget, drafter: Drafter, config: HfConfig) -> DraftCount:
    """A whole model: the part of it that the last stage would have."""
    shape = draft_model_shape(config)
    text = text_config(config)
    settings = replace(
        target.settings,
        architecture=drafter.architectures[0],
        quantization=drafter.quantization,
        use_mla=keeps_latent_vectors(text),
    )
    files, card = target.args.draft_files, target.capability
    given = (config, shape, settings, target.args, files, card, target.backends)
    shared = _shared_tables(target, replace(target, config=config, shape=shape, settings=settings))
    built, loaded = rank_tensors(*given)[-1], loaded_tensors(*given)[-1]
    scheme = scheme_of(config, text, drafter.quantization, files, card)
    return DraftCount(
        built=DraftWeights(layers=_less(built, shared)),
        loaded=DraftWeights(layers=_less(loaded, shared)),
        exact=scheme.exact,
    )


def _shared_tables(target: DraftTarget, draft: DraftTarget) -> Tensors:
    """Rotary tables that both have, of which the engine keeps one."""
    try:
        there = _target_tables(target)
    except UnplannableError:
        return ()
    return tuple(table for key, table in _target_tables(draft).items() if key in there)


def _less(tensors: Tensors, shared: Tensors) -> Tensors:
    left = Counter(shared)
    kept = []
    for tensor in tensors:
        if left[tensor]:
            left[tensor] -= 1
        else:
            kept.append(tensor)
    return tuple(kept)
