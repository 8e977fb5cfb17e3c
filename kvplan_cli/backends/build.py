"""Each layer's way through the engine's model construction: KV dtype, backend, refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field, fields
from operator import attrgetter

from kvplan_cli.backends.attention import attention_storage, attention_variant
from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.quant_modes import packs_keys_with_values
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope, LayerStorage, layer_index
from kvplan_cli.backends.selection import select_backend
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.models.shape import (
    AttentionLayer,
    CacheLayer,
    CompressedLayer,
    HiddenStateLayer,
    IndexLayer,
    MLALayer,
    ModelShape,
    RegionLayer,
    RingLayer,
    SharedLatentLayer,
    StateLayer,
)
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass

# Attention layers at each end that packed caches leave in the model's dtype.
_BOUNDARY_LAYERS = 2
_OWN = ("name", "decoder_layer", "kv_sharing_target")


_READERS: dict[str, Callable[[CacheLayer], Hashable]] = {}


def _traits(layer: CacheLayer) -> Hashable:
    """All that tells layers apart but their name, their place and whose cache they share."""
    kind = type(layer).__name__
    if kind not in _READERS:
        names = (trait.name for trait in fields(layer) if trait.name not in _OWN)
        _READERS[kind] = attrgetter(*names)
    return (kind, _READERS[kind](layer))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLayer:
    """A layer and what it stores.

    variant: the engine wraps the backend by chunk or direction, and counts each wrapping as a
    backend of its own. alike: equal for layers that differ in name and place only.
    """

    layer: CacheLayer
    storage: LayerStorage
    variant: str
    alike: Hashable

    @property
    def backend(self) -> Backend:
        return self.storage.backend


def skipped_layers(
    shape: ModelShape, settings: ResolvedSettings, args: EngineArgs
) -> frozenset[str]:
    """Layer indices and kinds left out of KV quantization.

    Source: vLLM 0.33.0 ``arg_utils.py:create_engine_config`` and
    ``turboquant/config.py:get_boundary_skip_layers``.
    """
    named = frozenset(args.kv_cache_dtype_skip_layers)
    if not packs_keys_with_values(settings.cache_dtype) or settings.is_hybrid:
        return named
    count = shape.num_hidden_layers
    edge = min(_BOUNDARY_LAYERS, count // 2)
    ends = {*range(edge), *range(count - edge, count)}
    return named | {str(index) for index in ends}


@dataclasses.dataclass(slots=True, kw_only=True)
class LayerBuilder:
    """Builds layers as the engine would; equal layers are decided once."""

    scope: BuildScope
    _known: dict[Hashable, LayerStorage] = field(default_factory=dict)

    def build(self, layer: CacheLayer) -> ServedLayer:
        """The layer with its backend. Raises: EngineRefusalError, UnplannableError."""
        alike = (_traits(layer), *self._circumstances(layer))
        if alike not in self._known:
            self._known[alike] = _storage(self.scope, layer)
        variant = attention_variant(layer) if isinstance(layer, AttentionLayer) else ""
        return ServedLayer(layer=layer, storage=self._known[alike], variant=variant, alike=alike)

    def _circumstances(self, layer: CacheLayer) -> tuple[Hashable, ...]:
        """What else decides: whether it shares a cache, and whether it is skipped."""
        shares = isinstance(layer, AttentionLayer) and layer.kv_sharing_target is not None
        return (shares, layer.name if self.scope.skipped else None)

    def default_backend(self) -> Backend:
        """The backend that the engine asks about a stage without attention layers."""
        request = self.scope.plain_request(self.scope.config.head_size)
        return select_backend(request, self.scope.facts, self.scope.attention.backend)


def _storage(scope: BuildScope, layer: CacheLayer) -> LayerStorage:
    if isinstance(layer, AttentionLayer):
        return attention_storage(scope, layer)
    if isinstance(layer, MLALayer | IndexLayer | CompressedLayer):
        return _latent_storage(scope, layer)
    return _other_storage(scope, layer)


def _latent_storage(
    scope: BuildScope, layer: MLALayer | IndexLayer | CompressedLayer
) -> LayerStorage:
    # Imported rarely: most models keep no latent caches.
    if isinstance(layer, MLALayer):
        from kvplan_cli.backends.mla.layer import mla_storage

        return mla_storage(scope, layer)
    if isinstance(layer, IndexLayer):
        from kvplan_cli.backends.mla.index import index_storage

        return index_storage(layer)
    from kvplan_cli.backends.mla.compressed import compressed_storage

    return compressed_storage(scope, layer)


def _other_storage(scope: BuildScope, layer: CacheLayer) -> LayerStorage:
    # Imported rarely, too.
    if isinstance(layer, SharedLatentLayer):
        from kvplan_cli.backends.mla.shared_latent import shared_latent_storage

        return shared_latent_storage(scope, layer)
    if isinstance(layer, RingLayer):
        from kvplan_cli.backends.states.rings import ring_storage

        return ring_storage(scope, layer)
    if isinstance(layer, RegionLayer):
        from kvplan_cli.backends.states.regions import region_storage

        return region_storage(scope, layer)
    if isinstance(layer, StateLayer):
        from kvplan_cli.backends.states.layer import state_storage

        return state_storage(scope, layer)
    if isinstance(layer, HiddenStateLayer):
        from kvplan_cli.backends.hidden_states import hidden_state_storage

        return hidden_state_storage(scope, layer)
    raise AssertionError(f"no storage for layers of {type(layer).__name__}")


def check_kv_sharing(served: ServedLayer, earlier: Mapping[str, ServedLayer]) -> None:
    """Refuse a layer that shares the cache of one that is not on its stage before it.

    Source: vLLM 0.33.0 ``attention.py:validate_kv_sharing_target``.
    """
    if isinstance(served.layer, SharedLatentLayer):
        from kvplan_cli.backends.mla.shared_latent import check_source

        check_source(served.layer, earlier)
    if not isinstance(served.layer, AttentionLayer):
        return
    name, target = served.layer.name, served.layer.kv_sharing_target
    if target is None or target in earlier:
        return
    comes_later = layer_index(name) <= layer_index(target)
    fault = (
        "must come before the current layer."
        if comes_later
        else "is not a valid Attention layer in the model."
    )
    raise model_refusal(
        "ValueError",
        f"Specified KV sharing target layer for {name} is not valid: target layer {target} {fault}",
    )
