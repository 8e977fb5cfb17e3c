"""What a layer of shared latent attention stores (DeepSeek V4.1).

Source: vLLM 0.33.0 ``vllm/models/deepseek_v41/{attention,compressor}.py``,
``vllm/models/deepseek_v41/nvidia/{model.py:_select_dsv4_attn_cls,flash_mla_mega_attn.py}`` and
``vllm/v1/attention/backends/mla/sparse_swa.py:DeepseekV4SWACache``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from typing import Final

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layer_spec import packed
from kvplan_cli.backends.mla.caches import (
    COMPRESSOR,
    DEEPSEEK_SPARSE_SWA,
    DEEPSEEK_V41_INDEXER,
    FLASHINFER_MLA_SPARSE_DSV41,
    FLASHMLA_MEGA_ATTN_DSV41,
    FLASHMLA_SPARSE_DSV41,
)
from kvplan_cli.backends.quant_modes import kv_quant_mode
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import CompressedPart, SharedLatentLayer
from kvplan_cli.specs import (
    AttentionSpec,
    CircularBufferSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
)
from kvplan_cli.values import dataclass

_VERSION: Final = "deepseek_v4"
_WINDOW_BLOCK: Final = 32
_SMALLEST_RING: Final = 8
# Heads of a group of the output's projection that the fused kernel takes.
_FUSED_GROUP: Final = 8
_OF_V4: Final = ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120")
_FLASHINFER: Final = ("FLASHINFER_MLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV41")
_FLASHMLA: Final = ("FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4", "FLASHMLA_SPARSE_DSV41")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """kv_cache_dtype: as the engine has it after it built the layers. dtype: of an element.

    record, vector: bytes of a packed token of the window, and of a packed vector; None where
    rows are plain. page: bytes that pages are multiples of. stride: bytes that blocks are
    multiples of, None for any.
    """

    kv_cache_dtype: str
    dtype: DType
    record: int | None = None
    vector: int | None = None
    page: int = 512
    stride: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLatentStorage:
    """One cache of the layer; every rank keeps all of it.

    replayed: the window is computed again instead of found again. ring: tokens of the vectors
    in the making.
    """

    layer: SharedLatentLayer
    backend: Backend
    stored: _Format
    replayed: bool
    ring: int

    def spec(self, blocks: StageBlocks, facts: Facts) -> AttentionSpec | None:
        """The cache's spec; None for a layer that attends to another's vectors, or to none."""
        match self.layer.part:
            case CompressedPart.WINDOW:
                plain: AttentionSpec = self._window()
            case CompressedPart.PARTIAL:
                plain = CircularBufferSpec(
                    block_size=self.ring,
                    num_kv_heads=1,
                    head_size=self.layer.head_size,
                    head_size_v=0,
                    dtype=DType.FLOAT32,
                )
            case CompressedPart.INDEX:
                plain = self._index(blocks.block_size)
            case CompressedPart.VECTORS:
                if not self.layer.owns:
                    return None
                plain = self._vectors(blocks.block_size)
        return packed(plain, self.backend, facts)

    def _window(self) -> SlidingWindowMLASpec:
        stored = self.stored
        return SlidingWindowMLASpec(
            block_size=_WINDOW_BLOCK,
            num_kv_heads=1,
            max_tp_shards=1,
            head_size=self.layer.head_size,
            dtype=stored.dtype,
            sliding_window=self.layer.sliding_window,
            cache_dtype_str=stored.kv_cache_dtype,
            state_content_bytes=stored.record,
            alignment=stored.page,
            block_stride_alignment=stored.stride,
            model_version=_VERSION,
            kv_quant_mode=kv_quant_mode(stored.kv_cache_dtype),
            bounded_replay=self.replayed,
        )

    def _vectors(self, block_size: int) -> MLAAttentionSpec:
        stored = self.stored
        return MLAAttentionSpec(
            block_size=block_size,
            num_kv_heads=1,
            head_size=self.layer.head_size,
            dtype=stored.dtype,
            tokens_per_state=self.layer.compress_ratio,
            cache_dtype_str=stored.kv_cache_dtype,
            alignment=stored.page,
            model_version=_VERSION,
            kv_quant_mode=kv_quant_mode(stored.kv_cache_dtype),
            state_content_bytes=stored.vector,
        )

    def _index(self, block_size: int) -> MLAAttentionSpec:
        return MLAAttentionSpec(
            block_size=block_size,
            num_kv_heads=1,
            head_size=self.layer.head_size,
            dtype=DType.UINT8,
            tokens_per_state=self.layer.compress_ratio,
            alignment=self.stored.page,
        )


def shared_latent_storage(scope: BuildScope, layer: SharedLatentLayer) -> SharedLatentStorage:
    """What the layer stores. Raises: EngineRefusalError."""
    attention = _attention_backend(scope, layer)
    _check_heads(scope, layer, attention)
    stored = _format(scope, attention)
    _check_fused(scope, layer)
    backends = {
        CompressedPart.WINDOW: DEEPSEEK_SPARSE_SWA,
        CompressedPart.VECTORS: attention,
        CompressedPart.INDEX: DEEPSEEK_V41_INDEXER,
        CompressedPart.PARTIAL: COMPRESSOR,
    }
    settings = scope.settings
    shares_prefill = settings.prefill_context_parallel_size > 1
    # The drafts, a bonus token and the row before them.
    rows = settings.num_speculative_tokens + 2
    return SharedLatentStorage(
        layer=layer,
        backend=backends[layer.part],
        stored=stored,
        replayed=settings.use_v2_model_runner
        and (settings.enable_prefix_caching or not shares_prefill),
        ring=max(_SMALLEST_RING, 1 << (rows - 1).bit_length()),
    )


def _attention_backend(scope: BuildScope, layer: SharedLatentLayer) -> Backend:
    name, major = scope.attention.backend, scope.facts.major
    if scope.settings.prefill_context_parallel_size > 1:
        if name not in (None, *_FLASHMLA):
            raise model_refusal(
                "NotImplementedError", "DeepSeek-V4.1 PCP requires FlashMLA sparse attention."
            )
        return FLASHMLA_SPARSE_DSV41
    if name in _OF_V4:
        raise model_refusal(
            "ValueError",
            f"{name} is not a DeepSeek V4.1 attention backend. Use FLASHINFER_MLA_SPARSE_DSV41 for "
            "DeepSeek V4.1 FlashInfer sparse MLA.",
        )
    if name in _FLASHINFER:
        return FLASHINFER_MLA_SPARSE_DSV41
    if name == FLASHMLA_MEGA_ATTN_DSV41.name:
        return FLASHMLA_MEGA_ATTN_DSV41
    if name in _FLASHMLA:
        return FLASHMLA_SPARSE_DSV41
    if major == 12:
        return FLASHINFER_MLA_SPARSE_DSV41
    fused = major == 10 and _misfit(scope, layer) is None
    return FLASHMLA_MEGA_ATTN_DSV41 if fused else FLASHMLA_SPARSE_DSV41


def _misfit(scope: BuildScope, layer: SharedLatentLayer) -> str | None:
    """What keeps the fused kernel from a rank's heads, without the layer's name."""
    ranks = scope.settings.tensor_parallel_size
    heads, groups = layer.num_attention_heads // ranks, layer.num_groups // ranks
    if heads % _FUSED_GROUP:
        return (
            f"mega attention needs the local head count ({heads}) to be a multiple of "
            f"{_FUSED_GROUP}."
        )
    if not groups or heads // groups != _FUSED_GROUP:
        return f"mega attention needs {_FUSED_GROUP} heads per wo_a group."
    return None


def _check_heads(scope: BuildScope, layer: SharedLatentLayer, backend: Backend) -> None:
    if layer.num_groups < scope.settings.tensor_parallel_size:
        # The engine divides by a rank's groups.
        raise model_refusal("ZeroDivisionError", "integer division or modulo by zero")
    heads = layer.num_attention_heads // scope.settings.tensor_parallel_size
    if heads > 128:
        flashinfer = backend.name == FLASHINFER_MLA_SPARSE_DSV41.name
        raise model_refusal(
            "ValueError",
            f"DeepseekV4 FlashInfer MLA Sparse does not support {heads} heads (sparse MLA kernel "
            "requires h_q in {8, 16, 32, 64, 128})."
            if flashinfer
            else f"DeepseekV4 FlashMLA does not support {heads} heads (FP8 decode kernel requires "
            "h_q in {64, 128}).",
        )


def _check_fused(scope: BuildScope, layer: SharedLatentLayer) -> None:
    """Refuse the fused kernel where it was asked for and cannot serve a rank's heads."""
    if scope.attention.backend != FLASHMLA_MEGA_ATTN_DSV41.name:
        return
    fault = _misfit(scope, layer)
    if fault is not None:
        raise model_refusal("ValueError", f"{layer.name}: {fault}")


def _format(scope: BuildScope, backend: Backend) -> _Format:
    name, major = scope.settings.cache_dtype, scope.facts.major
    if backend.name == FLASHINFER_MLA_SPARSE_DSV41.name and major != 12:
        return _plain(name)
    fused = backend.name == FLASHMLA_MEGA_ATTN_DSV41.name
    if name in ("auto", "fp8"):
        name = "nvfp4_ds_mla" if fused else "fp8_ds_mla"
    elif not name.endswith("_ds_mla"):
        raise model_refusal(
            "ValueError",
            f"DeepseekV4 packed KV layouts only support fp8 kv-cache, got {name}. Please set "
            "`--kv-cache-dtype fp8` or select a backend that supports bfloat16 KV cache.",
        )
    narrow = name == "nvfp4_ds_mla"
    if major != 10:
        if narrow:
            raise model_refusal(
                "ValueError",
                "nvfp4_ds_mla needs the V4.1 KV records, which FlashMLA decodes only on SM100.",
            )
        return _Format(kv_cache_dtype=name, dtype=DType.UINT8, record=584, vector=584, page=576)
    record = 528
    vector = 288 if narrow else record
    return _Format(
        kv_cache_dtype=name,
        dtype=DType.UINT8,
        record=record,
        vector=vector,
        stride=math.lcm(record, vector),
    )


def _plain(name: str) -> _Format:
    if name.endswith("_ds_mla"):
        raise model_refusal(
            "ValueError",
            f"{name} is a packed FlashMLA DeepSeek V4.1 KV cache format; the selected backend "
            "stores plain KV rows.",
        )
    dtype = DType.FLOAT8_E4M3FN if name.startswith("fp8") else DType.BFLOAT16
    return _Format(kv_cache_dtype=name, dtype=dtype)


def check_source(layer: SharedLatentLayer, earlier: Container[str]) -> None:
    """Refuse a layer whose vectors or index keys another stage keeps. earlier: names."""
    if layer.part is not CompressedPart.VECTORS or layer.owns or layer.source is None:
        return
    source = re.sub(r"\.layers\.\d+\.", f".layers.{layer.source}.", layer.name)
    keys = f"{source}.indexer.k_cache"
    for name, what in ((keys, "Indexer K cache"), (source, "Compressed-KV")):
        if name in earlier or (name == keys and not layer.chooses):
            continue
        raise model_refusal(
            "NotImplementedError",
            f"{what} source {name} not found on this rank; PP splits inside a v4.1 kv-sharing "
            "group are not supported.",
        )
