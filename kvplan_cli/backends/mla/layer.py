"""A latent attention layer's way through the engine's construction.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/attention/mla_attention.py:MLAAttention``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.backends.backend import Backend, invalid_reasons
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layer_spec import packed
from kvplan_cli.backends.mla.construction import check_latent, check_named
from kvplan_cli.backends.mla.prefill import check_prefill
from kvplan_cli.backends.quant_modes import cache_elements, is_quantized, kv_quant_mode
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.backends.scope import BuildScope, layer_index
from kvplan_cli.backends.selection import backend_named, select_backend
from kvplan_cli.dtypes import DType
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.shape import MLALayer
from kvplan_cli.specs import AttentionSpec, MLAAttentionSpec, SlidingWindowMLASpec
from kvplan_cli.values import dataclass

# Bytes of a token in formats that pack the vector with its scales.
_PACKED_BYTES: Final = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}


@dataclass(frozen=True, slots=True, kw_only=True)
class MLAStorage:
    """One latent vector a token, the same on every rank. kv_cache_dtype: the layer's format."""

    layer: MLALayer
    backend: Backend
    kv_cache_dtype: str
    model_dtype: DType

    def spec(self, blocks: StageBlocks, facts: Facts) -> AttentionSpec:
        """The layer's spec."""
        return packed(self._plain_spec(blocks.block_size), self.backend, facts)

    def _plain_spec(self, block_size: int) -> AttentionSpec:
        layer = self.layer
        dtype = cache_elements(self.kv_cache_dtype, self.model_dtype)
        quant_mode = kv_quant_mode(self.kv_cache_dtype)
        content = _PACKED_BYTES.get(self.kv_cache_dtype)
        if layer.sliding_window is not None:
            return SlidingWindowMLASpec(
                block_size=block_size,
                num_kv_heads=1,
                max_tp_shards=1,
                head_size=layer.stored_head_size or layer.head_size,
                dtype=dtype,
                cache_dtype_str=self.kv_cache_dtype,
                kv_quant_mode=quant_mode,
                state_content_bytes=content,
                sliding_window=layer.sliding_window,
            )
        return MLAAttentionSpec(
            block_size=block_size,
            num_kv_heads=1,
            max_tp_shards=1,
            head_size=layer.stored_head_size or layer.head_size,
            dtype=dtype,
            cache_dtype_str=self.kv_cache_dtype,
            kv_quant_mode=quant_mode,
            state_content_bytes=content,
            topk_buffer_width=layer.index_topk,
            is_index_group_leader=layer.is_index_group_leader,
            non_causal_multi_token_decode=layer.non_causal_multi_token_decode,
        )


def mla_storage(scope: BuildScope, layer: MLALayer) -> MLAStorage:
    """What the layer stores. Raises: EngineRefusalError, UnplannableError."""
    kv_cache_dtype = _kv_cache_dtype(scope, layer)
    if layer.backend is None or layer.is_sparse:
        backend = _backend(scope, layer, kv_cache_dtype)
        kv_cache_dtype = _stored_format(backend, kv_cache_dtype)
        scope.check_scales(kv_cache_dtype)
        check_latent(scope, layer, backend, kv_cache_dtype)
        if not layer.is_sparse:
            check_prefill(scope, layer)
    if layer.backend is not None:
        backend = backend_named(layer.backend)
        check_named(scope, backend, kv_cache_dtype)
        if kv_cache_dtype == "fp8_ds_mla":
            # Packed content is for sparse layers.
            kv_cache_dtype = "fp8"
    return MLAStorage(
        layer=layer,
        backend=backend,
        kv_cache_dtype=kv_cache_dtype,
        model_dtype=scope.settings.dtype,
    )


def _kv_cache_dtype(scope: BuildScope, layer: MLALayer) -> str:
    if scope.skipped and str(layer_index(layer.name)) in scope.skipped:
        return "auto"
    return scope.settings.cache_dtype


def _backend(scope: BuildScope, layer: MLALayer, kv_cache_dtype: str) -> Backend:
    request = replace(
        scope.plain_request(layer.head_size),
        kv_cache_dtype=kv_cache_dtype,
        use_mla=True,
        use_sparse=layer.is_sparse,
        num_heads=layer.num_attention_heads // scope.settings.tensor_parallel_size,
    )
    backend = _selected(scope, layer, request)
    if layer.has_sink and _serves_sink(request, scope.facts):
        return backend_named("FLASHMLA_SPARSE")
    return backend


def _selected(scope: BuildScope, layer: MLALayer, request: BackendRequest) -> Backend:
    try:
        return select_backend(request, scope.facts, scope.attention.backend)
    except EngineRefusalError:
        if layer.has_sink and layer.is_sparse:
            # The model asks first, and words the refusal itself.
            raise model_refusal(
                "RuntimeError",
                "HYV4 sparse attention was requested, but no valid sparse MLA backend is "
                "available for current runtime/config. Refusing to fall back to dense attention.",
            ) from None
        raise


def _serves_sink(request: BackendRequest, facts: Facts) -> bool:
    """Whether FLASHMLA_SPARSE could run the layer. Source: ``hy_v4/nvidia/attention.py``."""
    asked = replace(
        request, use_pcp=False, use_dcp=False, use_batch_invariant=False, use_rswa=False
    )
    return not invalid_reasons(backend_named("FLASHMLA_SPARSE"), asked, facts)


def _stored_format(backend: Backend, kv_cache_dtype: str) -> str:
    """The format that the backend makes of a KV dtype; it holds for the whole engine then.

    Source: ``mla_attention.py:_canonicalize_sparse_mla_kv_cache_dtype``.
    """
    if backend.name == "FLASHMLA_SPARSE" and is_quantized(kv_cache_dtype):
        return kv_cache_dtype if kv_cache_dtype == "nvfp4_ds_mla" else "fp8_ds_mla"
    if backend.name == "FLASHINFER_MLA_SPARSE_SM120" and kv_cache_dtype in (
        "auto",
        "fp8",
        "fp8_e4m3",
    ):
        return "fp8_ds_mla"
    return kv_cache_dtype
