"""From a model's layers and the engine's settings to the spec of each layer.

Source: vLLM 0.33.0 ``vllm/v1/worker/gpu/attn_utils.py:get_kv_cache_spec`` and the order of
``vllm/v1/executor``: build the model, update the block size, collect the specs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from kvplan_cli.backends.attention_config import engine_facts
from kvplan_cli.backends.backend import Layouts
from kvplan_cli.backends.block_size import StageBlocks, StateNeeds, stage_blocks
from kvplan_cli.backends.build import (
    LayerBuilder,
    ServedLayer,
    check_kv_sharing,
    skipped_layers,
)
from kvplan_cli.backends.divisibility import VOCAB_PADDING, check_vocabulary
from kvplan_cli.backends.expert_layers import check_expert_layers
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.fp8_blocks import (
    Fp8Blocks,
    check_attention_blocks,
    check_feed_forward_blocks,
)
from kvplan_cli.backends.layouts import shared_layouts
from kvplan_cli.backends.model_rules import (
    check_experts,
    check_head,
    check_model,
    check_shared_experts,
)
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope, quantization_config
from kvplan_cli.backends.towers import check_tower
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import (
    AttentionLayer,
    CacheLayer,
    LayerStack,
    ModelShape,
    StateLayer,
)
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.environment import PP_LAYER_PARTITION
from kvplan_cli.settings.pipeline import stage_layers
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs import KVCacheSpec
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.backends.drafter import DraftLayers


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPlan:
    """What the workers report before memory is shared out; one entry a pipeline stage.

    stages: layer name to spec, in the engine's order; equal specs are one object. backends:
    backend name to the number of layers it serves, those without a cache included.
    supported_layouts: what all of a worker's backends read, best first. block_size: the
    engine's block size in tokens. kv_shared_layers: layer name to the layer whose cache it uses.
    """

    stages: tuple[Mapping[str, KVCacheSpec], ...]
    backends: tuple[Mapping[str, int], ...]
    supported_layouts: tuple[Layouts, ...]
    block_size: int
    kv_shared_layers: tuple[Mapping[str, str], ...]


def layer_specs(
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    gpu: Gpu,
    config: HfConfig,
    extra_files: Mapping[str, Mapping[str, Any]] | None = None,
    rules: EngineRules = NEWEST_RULES,
) -> BackendPlan:
    """The spec of each layer on each pipeline stage, and what the backends make of them.

    shape: the model's layers, unsharded. config: the whole config.json. extra_files: what stands
    beside it, by name. rules: the release's. Raises: EngineRefusalError (stage ``model_error``)
    where the engine refuses while it builds the model, UnplannableError for a backend that kvplan
    has no row for.
    """
    facts, attention = engine_facts(shape, settings, args, gpu, config, rules)
    _check_outside_layers(shape, settings, args, config)
    check_shared_experts(shape.architecture, args, gpu)
    scope = BuildScope(
        shape=shape,
        settings=settings,
        facts=facts,
        attention=attention,
        skipped=skipped_layers(shape, settings, args),
        quantization=quantization_config(config, extra_files),
        language_model_only=args.language_model_only,
    )
    builder = LayerBuilder(scope=scope)
    specs = _SpecStore(facts=facts.without_config())
    blocks = Fp8Blocks.of(settings, scope.quantization)
    check_attention_blocks(blocks, shape, settings.tensor_parallel_size)
    partition = args.env.get(PP_LAYER_PARTITION)
    ranges = stage_layers(shape.num_hidden_layers, settings.pipeline_parallel_size, partition)
    layers = [
        [layer for layer in shape.layers if layer.decoder_layer in decoder_layers]
        for decoder_layers in ranges
    ]
    if shape.encoder is not None:
        _add_encoder(layers, shape.encoder, partition)
    drafted = _draft_layers(scope, args, gpu, config, len(ranges[-1]))
    stages = tuple(
        _stage(of_stage, builder, specs, drafted if index == len(ranges) - 1 else None)
        for index, of_stage in enumerate(layers)
    )
    text = text_config(config)
    check_experts(shape.architecture, text, settings.tensor_parallel_size)
    check_head(shape.architecture, text, settings.pipeline_parallel_size)
    check_expert_layers(shape.architecture, text, ranges)
    check_feed_forward_blocks(blocks, settings, gpu, config)
    return BackendPlan(
        stages=tuple(stage.specs for stage in stages),
        backends=tuple(stage.backends for stage in stages),
        supported_layouts=tuple(stage.layouts for stage in stages),
        block_size=stages[0].block_size,
        kv_shared_layers=tuple(stage.kv_shared_layers for stage in stages),
    )


def _add_encoder(
    layers: Sequence[list[CacheLayer]], encoder: LayerStack, partition: str | None
) -> None:
    """The engine splits an encoder with a cache as it splits the decoder."""
    ranges = stage_layers(encoder.num_layers, len(layers), partition)
    for of_stage, encoder_layers in zip(layers, ranges, strict=True):
        of_stage += [one for one in encoder.layers if one.decoder_layer in encoder_layers]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    specs: Mapping[str, KVCacheSpec]
    backends: Mapping[str, int]
    layouts: Layouts
    block_size: int
    kv_shared_layers: Mapping[str, str]


@dataclasses.dataclass(slots=True, kw_only=True)
class _SpecStore:
    """Builds each distinct spec once, so that equal specs are one object."""

    facts: Facts
    _by_layer: dict[tuple[Hashable, StageBlocks, bool], KVCacheSpec | None] = field(
        default_factory=dict
    )
    _by_value: dict[KVCacheSpec, KVCacheSpec] = field(default_factory=dict)

    def spec_of(
        self, served: ServedLayer, blocks: StageBlocks, *, is_draft: bool = False
    ) -> KVCacheSpec | None:
        key = (served.alike, blocks, is_draft)
        if key not in self._by_layer:
            spec = served.storage.spec(blocks, self.facts)
            if is_draft:
                # The mark is no part of a spec's value.
                self._by_layer[key] = spec and replace(spec, is_draft=True)
            else:
                self._by_layer[key] = spec and self._by_value.setdefault(spec, spec)
        return self._by_layer[key]


def _check_outside_layers(
    shape: ModelShape, settings: ResolvedSettings, args: EngineArgs, config: HfConfig
) -> None:
    """What the engine builds before the decoder's layers."""
    # Built even where the deployment takes text only.
    check_tower(shape.architecture, config, settings.tensor_parallel_size)
    check_model(shape.architecture, settings, config)
    _check_vocabulary(settings, config)


def _check_vocabulary(settings: ResolvedSettings, config: HfConfig) -> None:
    """The vocabulary is padded to 64 rows: any size that divides 64 needs no look at it."""
    if VOCAB_PADDING % settings.tensor_parallel_size:
        check_vocabulary(text_config(config).positive("vocab_size"), settings.tensor_parallel_size)


def _state_needs(scope: BuildScope, layers: Sequence[CacheLayer]) -> StateNeeds | None:
    if not scope.shape.block_states and not any(isinstance(one, StateLayer) for one in layers):
        return None
    # Imported rarely: most models keep no states.
    from kvplan_cli.backends.states.needs import state_needs

    return state_needs(scope, layers)


def _draft_layers(
    scope: BuildScope, args: EngineArgs, gpu: Gpu, config: HfConfig, stage_layers: int
) -> DraftLayers | None:
    if scope.settings.drafter is None:
        return None
    # Imported rarely: most plans have no drafter.
    from kvplan_cli.backends.drafter import draft_layers

    return draft_layers(scope, args, gpu, config, stage_layers)


def _built(
    layers: Sequence[CacheLayer], builder: LayerBuilder, served: dict[str, ServedLayer]
) -> None:
    """Build layers behind those that are ``served`` already."""
    for layer in layers:
        if layer.name in served:
            raise model_refusal("ValueError", f"Duplicate layer name: {layer.name}")
        built = builder.build(layer)
        check_kv_sharing(built, served)
        served[layer.name] = built


def _stage(
    layers: Sequence[CacheLayer],
    builder: LayerBuilder,
    specs: _SpecStore,
    drafted: DraftLayers | None,
) -> _Stage:
    scope = builder.scope
    served: dict[str, ServedLayer] = {}
    _built(layers, builder, served)
    target = frozenset(served)
    if drafted is not None:
        _built(drafted.layers, drafted.builder, served)
        layers = [*layers, *drafted.layers]
    backends = list(
        {(one.backend.name, one.variant): one.backend for one in served.values()}.values()
    )
    blocks = stage_blocks(
        [backend for backend in backends if not backend.ssm],
        scope.facts,
        requested=scope.settings.block_size,
        model_dtype=scope.settings.dtype,
        skips_layers=bool(scope.skipped),
        states=_state_needs(scope, layers),
    )
    collected = {
        name: specs.spec_of(one, blocks, is_draft=name not in target)
        for name, one in served.items()
    }
    return _Stage(
        specs={name: spec for name, spec in collected.items() if spec is not None},
        backends=Counter(one.backend.name for one in served.values()),
        layouts=shared_layouts(backends or [builder.default_backend()], scope.facts),
        block_size=blocks.block_size,
        kv_shared_layers={
            layer.name: layer.kv_sharing_target
            for layer in layers
            if isinstance(layer, AttentionLayer) and layer.kv_sharing_target is not None
        },
    )
