"""What a layer of compressed latent attention stores (DeepSeek V4).

Source: vLLM 0.33.0 ``vllm/models/deepseek_v4/{attention,compressor}.py``,
``vllm/models/deepseek_v4/nvidia/model.py:_select_dsv4_attn_cls`` and
``vllm/v1/attention/backends/mla/sparse_swa.py:DeepseekV4SWACache``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layer_spec import packed
from kvplan_cli.backends.mla.caches import (
    COMPRESSOR,
    DEEPSEEK_SPARSE_SWA,
    DEEPSEEK_V4_INDEXER,
    FLASHINFER_MLA_SPARSE_DSV4,
    FLASHMLA_SPARSE_DSV4,
)
from kvplan_cli.backends.quant_modes import kv_quant_mode
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import CompressedLayer, CompressedPart
from kvplan_cli.specs import AttentionSpec, MLAAttentionSpec, SlidingWindowMLASpec
from kvplan_cli.values import dataclass

_PACKED: Final = "fp8_ds_mla"
_VERSION: Final = "deepseek_v4"
# Bytes of a packed vector: 448 of content, 128 of the rotary part, 8 of scales.
_PACKED_BYTES: Final = 584
# Pages are whole strides of the kernels that read them.
_PACKED_PAGE, _PLAIN_PAGE = 576, 512
_WINDOW_BLOCK: Final = 64
# Tokens of a block of partial vectors, by compression.
_PARTIAL_BLOCK: Final[Mapping[int, int]] = {4: 4, 128: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """kv_cache_dtype: as the engine has it after it built the layers. dtype: of a vector."""

    kv_cache_dtype: str
    dtype: DType

    @property
    def page(self) -> int:
        return _PACKED_PAGE if self.kv_cache_dtype == _PACKED else _PLAIN_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedStorage:
    """One cache of the layer; every rank keeps all of it."""

    layer: CompressedLayer
    backend: Backend
    stored: _Format

    def spec(self, blocks: StageBlocks, facts: Facts) -> AttentionSpec | None:
        """The cache's spec; None for a layer that compresses nothing."""
        match self.layer.part:
            case CompressedPart.WINDOW:
                plain: AttentionSpec = _window(self.layer, self.stored)
            case CompressedPart.PARTIAL:
                plain = _partial(self.layer, self.stored)
            case CompressedPart.INDEX:
                plain = _index(self.layer, self.stored, blocks.block_size)
            case CompressedPart.VECTORS:
                if self.layer.compress_ratio <= 1:
                    return None
                plain = _vectors(self.layer, self.stored, blocks.block_size)
        return packed(plain, self.backend, facts)


def compressed_storage(scope: BuildScope, layer: CompressedLayer) -> CompressedStorage:
    """What the layer stores. Raises: EngineRefusalError."""
    attention = _attention_backend(scope)
    stored = _format(scope, packs=_packs(attention, scope.facts))
    backends = {
        CompressedPart.WINDOW: DEEPSEEK_SPARSE_SWA,
        CompressedPart.VECTORS: attention,
        CompressedPart.INDEX: DEEPSEEK_V4_INDEXER,
        CompressedPart.PARTIAL: COMPRESSOR,
    }
    _check_heads(scope, layer, attention)
    return CompressedStorage(layer=layer, backend=backends[layer.part], stored=stored)


def _attention_backend(scope: BuildScope) -> Backend:
    name = scope.attention.backend
    if name in ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"):
        raise model_refusal(
            "ValueError",
            f"{name} is not a DeepSeek V4 attention backend. Use FLASHINFER_MLA_SPARSE_DSV4 for "
            "DeepSeek V4 FlashInfer sparse MLA.",
        )
    if name == FLASHINFER_MLA_SPARSE_DSV4.name:
        return FLASHINFER_MLA_SPARSE_DSV4
    explicit = name in ("FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4")
    if scope.facts.major == 12 and not explicit:
        return FLASHINFER_MLA_SPARSE_DSV4
    return FLASHMLA_SPARSE_DSV4


def _packs(backend: Backend, facts: Facts) -> bool:
    return backend.name == FLASHMLA_SPARSE_DSV4.name or facts.major == 12


def _format(scope: BuildScope, *, packs: bool) -> _Format:
    name = scope.settings.cache_dtype
    if not packs:
        dtype = DType.FLOAT8_E4M3FN if name.startswith("fp8") else DType.BFLOAT16
        return _Format(kv_cache_dtype=name, dtype=dtype)
    if name != "auto" and not name.startswith("fp8"):
        raise model_refusal(
            "ValueError",
            f"DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {name}. Please set "
            "`--kv-cache-dtype fp8` or select a backend that supports bfloat16 KV cache.",
        )
    return _Format(kv_cache_dtype=_PACKED, dtype=DType.UINT8)


def _check_heads(scope: BuildScope, layer: CompressedLayer, backend: Backend) -> None:
    heads = layer.num_attention_heads // scope.settings.tensor_parallel_size
    if heads <= 128:
        return
    if backend.name == FLASHMLA_SPARSE_DSV4.name:
        raise model_refusal(
            "ValueError",
            f"DeepseekV4 FlashMLA does not support {heads} heads (FP8 decode kernel requires h_q "
            "in {64, 128}).",
        )
    raise model_refusal(
        "ValueError",
        f"DeepseekV4 FlashInfer MLA Sparse does not support {heads} heads (sparse MLA kernel "
        "requires h_q in {8, 16, 32, 64, 128}).",
    )


def _window(layer: CompressedLayer, stored: _Format) -> SlidingWindowMLASpec:
    assert layer.sliding_window is not None, "a window has a size"
    packs = stored.kv_cache_dtype in (_PACKED, "nvfp4_ds_mla")
    return SlidingWindowMLASpec(
        block_size=_WINDOW_BLOCK,
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=layer.head_size,
        dtype=stored.dtype,
        sliding_window=layer.sliding_window,
        cache_dtype_str=stored.kv_cache_dtype,
        state_content_bytes=_PACKED_BYTES if packs else None,
        alignment=_PACKED_PAGE if packs else _PLAIN_PAGE,
        model_version=_VERSION,
        kv_quant_mode=kv_quant_mode(stored.kv_cache_dtype),
    )


def _vectors(layer: CompressedLayer, stored: _Format, block_size: int) -> MLAAttentionSpec:
    packs = stored.kv_cache_dtype == _PACKED
    return MLAAttentionSpec(
        block_size=block_size,
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=layer.head_size,
        dtype=DType.UINT8 if packs else stored.dtype,
        tokens_per_state=layer.compress_ratio,
        cache_dtype_str=stored.kv_cache_dtype,
        alignment=stored.page,
        model_version=_VERSION,
        kv_quant_mode=kv_quant_mode(stored.kv_cache_dtype),
        state_content_bytes=_PACKED_BYTES if packs else None,
    )


def _index(layer: CompressedLayer, stored: _Format, block_size: int) -> MLAAttentionSpec:
    return MLAAttentionSpec(
        block_size=block_size,
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=layer.head_size,
        dtype=DType.UINT8,
        tokens_per_state=layer.compress_ratio,
        alignment=stored.page,
    )


def _partial(layer: CompressedLayer, stored: _Format) -> SlidingWindowMLASpec:
    assert layer.sliding_window is not None, "what is gathered has a size"
    return SlidingWindowMLASpec(
        block_size=_PARTIAL_BLOCK[layer.compress_ratio],
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=layer.head_size,
        dtype=DType.FLOAT32,
        sliding_window=layer.sliding_window,
        alignment=stored.page,
    )
