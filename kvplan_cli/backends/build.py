"""Each layer's way through the engine's model construction: KV dtype, backend, refusals.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/attention/attention.py:Attention.__init__``
and its chunked, prefix-LM and encoder-only kin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import Any

from kvplan_cli.backends.attention_config import AttentionConfig
from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.construction import Built, check_implementation, check_own_cache
from kvplan_cli.backends.divisibility import check_heads, rank_heads
from kvplan_cli.backends.facts import CurrentConfig, Facts
from kvplan_cli.backends.layer_spec import Storage
from kvplan_cli.backends.quant_modes import packs_keys_with_values
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.request import AttentionType, BackendRequest
from kvplan_cli.backends.selection import backend_named, diff_kv_backend, select_backend
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass

# Attention layers at each end that packed caches leave in the model's dtype.
_BOUNDARY_LAYERS = 2
# All that tells layers apart but their name, their place and whose cache they share.
_TRAITS = attrgetter(
    *(
        trait.name
        for trait in fields(AttentionLayer)
        if trait.name not in ("name", "decoder_layer", "kv_sharing_target")
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLayer:
    """A layer and what it stores.

    variant: the engine wraps the backend by chunk or direction, and counts each wrapping as a
    backend of its own. alike: equal for layers that differ in name and place only.
    """

    layer: AttentionLayer
    storage: Storage
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

    shape: ModelShape
    settings: ResolvedSettings
    facts: Facts
    attention: AttentionConfig
    skipped: frozenset[str]
    quantization: Mapping[str, Any]
    _known: dict[Hashable, Storage] = field(default_factory=dict)

    def build(self, layer: AttentionLayer) -> ServedLayer:
        """The layer with its backend. Raises: EngineRefusalError, UnplannableError."""
        kv_cache_dtype = self._kv_cache_dtype(layer)
        shares = layer.kv_sharing_target is not None
        alike = (_TRAITS(layer), shares, kv_cache_dtype)
        if alike not in self._known:
            self._known[alike] = self._storage(layer, kv_cache_dtype)
        return ServedLayer(
            layer=layer, storage=self._known[alike], variant=_variant(layer), alike=alike
        )

    def default_backend(self) -> Backend:
        """The backend that the engine asks about a stage without attention layers."""
        request = self._plain_request(self._config.head_size)
        return select_backend(request, self.facts, self.attention.backend)

    @property
    def _config(self) -> CurrentConfig:
        assert self.facts.config is not None, "the engine builds models with its config in scope"
        return self.facts.config

    def _kv_cache_dtype(self, layer: AttentionLayer) -> str:
        if layer.ignores_cache_config:
            return "auto"
        if not self.skipped or layer.own_cache is not None:
            return self.settings.cache_dtype
        sliding = layer.sliding_window is not None and "sliding_window" in self.skipped
        skip = sliding or str(_layer_index(layer.name)) in self.skipped
        return "auto" if skip else self.settings.cache_dtype

    def _storage(self, layer: AttentionLayer, kv_cache_dtype: str) -> Storage:
        tensor_parallel_size = self.settings.tensor_parallel_size
        check_heads(self.shape.architecture, layer, tensor_parallel_size)
        _, num_kv_heads = rank_heads(layer, tensor_parallel_size)
        backend = self._backend(layer, kv_cache_dtype)
        if layer.own_cache is not None:
            check_own_cache(layer, self.settings.dtype, tensor_parallel_size)
        else:
            built = Built(
                layer=layer, kv_cache_dtype=kv_cache_dtype, attn_type=_attention_type(layer)
            )
            check_implementation(backend, built, self.facts)
            self._check_scales(kv_cache_dtype)
        return Storage(
            backend=backend,
            num_kv_heads=num_kv_heads,
            kv_cache_dtype=kv_cache_dtype,
            model_dtype=self.settings.dtype,
        )

    def _backend(self, layer: AttentionLayer, kv_cache_dtype: str) -> Backend:
        if layer.own_cache is not None:
            return backend_named(layer.own_cache.backend)
        if layer.head_size_v != layer.head_size:
            return diff_kv_backend(
                self.facts,
                self.attention.backend,
                head_size=layer.head_size,
                head_size_v=layer.head_size_v,
                has_sink=layer.has_sink,
            )
        request = self._request(layer, kv_cache_dtype)
        return select_backend(request, self.facts, self.attention.backend)

    def _plain_request(self, head_size: int) -> BackendRequest:
        return BackendRequest(
            head_size=head_size,
            dtype=self.settings.dtype,
            kv_cache_dtype=self.settings.cache_dtype,
            block_size=self.settings.block_size,
            use_non_causal=self.attention.use_non_causal,
            use_batch_invariant=self.facts.batch_invariant,
            use_pcp=self.settings.prefill_context_parallel_size > 1,
            use_dcp=self.settings.decode_context_parallel_size > 1,
            use_rswa=self._config.rswa,
        )

    def _request(self, layer: AttentionLayer, kv_cache_dtype: str) -> BackendRequest:
        request = replace(self._plain_request(layer.head_size), attn_type=_attention_type(layer))
        if layer.ignores_cache_config:
            request = replace(request, kv_cache_dtype=kv_cache_dtype)
        if _variant(layer):
            # Wrapped backends are selected before skip list, sinks and masks are looked at.
            return request
        return replace(
            request,
            kv_cache_dtype=kv_cache_dtype,
            has_sink=layer.has_sink,
            use_mm_prefix=self._config.mm_prefix_lm,
            use_per_head_quant_scales=self._kv_cache_scheme.get("strategy") == "attn_head",
            has_sliding_window=layer.sliding_window is not None,
        )

    @property
    def _kv_cache_scheme(self) -> Mapping[str, Any]:
        scheme = self.quantization.get("kv_cache_scheme")
        compressed = self.settings.quantization == "compressed-tensors"
        return scheme if compressed and isinstance(scheme, Mapping) else {}

    def _check_scales(self, kv_cache_dtype: str) -> None:
        """FP8 checkpoints may hold KV scales, which float8_e5m2 has no use for."""
        method = self.settings.quantization or ""
        holds_scales = method == "fp8" or method.startswith("modelopt") or self._kv_cache_scheme
        if kv_cache_dtype == "fp8_e5m2" and holds_scales:
            raise model_refusal(
                "ValueError", "fp8_e5m2 kv-cache is not supported with fp8 checkpoints."
            )


def quantization_config(config: HfConfig) -> Mapping[str, Any]:
    """The checkpoint's quantization config, empty where it has none."""
    for part in (config, text_config(config)):
        for key in ("quantization_config", "compression_config"):
            value = part.raw(key)
            if isinstance(value, Mapping):
                return value
    return {}


def check_kv_sharing(served: ServedLayer, earlier: Mapping[str, ServedLayer]) -> None:
    """Refuse a layer that shares the cache of one that is not on its stage before it.

    Source: vLLM 0.33.0 ``attention.py:validate_kv_sharing_target``.
    """
    name, target = served.layer.name, served.layer.kv_sharing_target
    if target is None or target in earlier:
        return
    comes_later = _layer_index(name) <= _layer_index(target)
    fault = (
        "must come before the current layer."
        if comes_later
        else "is not a valid Attention layer in the model."
    )
    raise model_refusal(
        "ValueError",
        f"Specified KV sharing target layer for {name} is not valid: target layer {target} {fault}",
    )


def _layer_index(name: str) -> int:
    """The layer's number in its name. Source: ``models/utils.py:extract_layer_index``."""
    numbers = [int(part) for part in name.split(".") if part.isdecimal()]
    if len(numbers) != 1:
        raise model_refusal("AssertionError", f"layer name {name} should only contain one integer")
    return numbers[0]


def _attention_type(layer: AttentionLayer) -> AttentionType:
    if layer.kind is AttentionKind.ENCODER_ONLY:
        return AttentionType.ENCODER_ONLY
    return AttentionType.DECODER


def _variant(layer: AttentionLayer) -> str:
    if layer.kind is AttentionKind.CHUNKED:
        return f"chunked_{layer.attention_chunk_size}"
    if layer.kind is AttentionKind.ENCODER_ONLY or layer.non_causal:
        return "bidirectional"
    return ""
