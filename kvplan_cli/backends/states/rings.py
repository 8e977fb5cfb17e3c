"""Rings of raw index keys.

Source: vLLM 0.33.0 ``vllm/models/qwen4_exp/common/qsa_cache.py``, ``.../nvidia/qsa.py`` and
``vllm/models/glm5next/common/attention.py``.
"""

from __future__ import annotations

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.backends.states.side_caches import QSA_KV_DTYPES, SIDE_CACHES
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import RingLayer
from kvplan_cli.specs import CircularBufferSpec
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass

_QSA = "QWEN4_EXP_EXP_QSA_STATE"
_TAIL = "KPOOL_TAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStorage:
    """capacity: tokens. head_size: elements of a vector, positions included."""

    layer: RingLayer
    backend: Backend
    capacity: int
    head_size: int

    def spec(self, blocks: StageBlocks, facts: Facts) -> CircularBufferSpec:
        """The layer's spec. Raises: EngineRefusalError where blocks are no whole rings."""
        if blocks.block_size % self.capacity:
            raise model_refusal("AssertionError", self._misfit(blocks.block_size))
        return CircularBufferSpec(
            block_size=self.capacity,
            num_kv_heads=self.layer.num_slots,
            head_size=self.head_size,
            head_size_v=0,
            dtype=DType.BFLOAT16,
            dcp_sharded=self.backend.name != _TAIL,
        )

    def _misfit(self, block_size: int) -> str:
        if self.backend.name == _TAIL:
            return (
                f"Glm5NextTailCache: cache_config.block_size ({block_size}) must be a multiple "
                f"of the tail ring ({self.capacity})"
            )
        return (
            f"QSA ring capacity {self.capacity} must divide the attention block size {block_size}"
        )


def ring_storage(scope: BuildScope, layer: RingLayer) -> RingStorage:
    """What the layer stores. Raises: EngineRefusalError."""
    backend = SIDE_CACHES[layer.backend]
    if backend.name == _QSA:
        _check_qsa(scope, layer)
    drafts = scope.settings.num_speculative_tokens
    pools = cdiv(layer.pool + drafts, layer.pool)
    if layer.doubling:
        pools = 1 << (pools - 1).bit_length()
    positions = 0 if scope.language_model_only else layer.position_elements
    return RingStorage(
        layer=layer,
        backend=backend,
        capacity=layer.pool * pools,
        head_size=layer.head_size + positions,
    )


def _check_qsa(scope: BuildScope, layer: RingLayer) -> None:
    """The refusals of an attention layer whose indexer this is, in the engine's order."""
    settings = scope.settings
    kv_heads, ranks = layer.num_kv_heads or 1, settings.tensor_parallel_size
    objections = (
        (
            settings.dtype is not DType.BFLOAT16,
            "NotImplementedError",
            "Qwen4Exp QSA currently requires BF16",
        ),
        (
            settings.cache_dtype not in QSA_KV_DTYPES,
            "NotImplementedError",
            "Qwen4Exp QSA requires a BF16 or FP8-e4m3 main KV cache",
        ),
        (
            settings.decode_context_parallel_size > 1 or settings.prefill_context_parallel_size > 1,
            "NotImplementedError",
            "Qwen4Exp QSA does not support context parallelism",
        ),
        (
            kv_heads >= ranks and kv_heads % ranks != 0,
            "ValueError",
            "QSA KV heads must be divisible by TP size",
        ),
        (
            kv_heads < ranks and ranks % kv_heads != 0,
            "ValueError",
            "TP size must be divisible by replicated QSA KV heads",
        ),
        (
            settings.cache_block_size % layer.pool != 0,
            "ValueError",
            "QSA cache block size must be divisible by the compression ratio",
        ),
    )
    for applies, error_type, words in objections:
        if applies:
            raise model_refusal(error_type, words)
