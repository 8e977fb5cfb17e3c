"""What attention that chooses regions keeps beside its keys and values (Step 5).

Source: vLLM 0.33.0 ``vllm/models/step5/nvidia/{sparse_summary_cache,csa_tail_ring}.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.backends.attention import attention_storage
from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layer_spec import Storage, plain_spec
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.backends.states.side_caches import SIDE_CACHES
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import RegionLayer, RegionPart
from kvplan_cli.specs import CircularBufferSpec, FullAttentionSpec, KVCacheSpec
from kvplan_cli.values import dataclass

_REGION: Final = 8  # tokens
_SUMMARY_BYTES: Final = 256
# A key and a gate of 256 bfloat16 elements each.
_ROW_BYTES: Final = 1024
_BACKENDS: Final = {
    RegionPart.SUMMARIES: SIDE_CACHES["STEP5_CSA_SUMMARY"],
    RegionPart.TAIL: SIDE_CACHES["STEP5_CSA_TAIL_RING"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStorage:
    """main: the attention layer beside. rows: of the open region that a step may replay."""

    layer: RegionLayer
    backend: Backend
    main: Storage
    rows: int

    def spec(self, blocks: StageBlocks, facts: Facts) -> KVCacheSpec:
        """The cache's spec. Raises: EngineRefusalError for blocks that don't hold it."""
        match self.layer.part:
            case RegionPart.SUMMARIES:
                return self._summaries(blocks.block_size)
            case RegionPart.TAIL:
                return self._tail(blocks.block_size)

    def _summaries(self, block_size: int) -> FullAttentionSpec:
        if block_size % _REGION:
            raise model_refusal("ValueError", "Step5 KV blocks must align to eight-token regions")
        return FullAttentionSpec(
            block_size=block_size,
            num_kv_heads=1,
            head_size=_SUMMARY_BYTES,
            head_size_v=0,
            dtype=DType.UINT8,
            tokens_per_state=_REGION,
        )

    def _tail(self, block_size: int) -> CircularBufferSpec:
        """A ring as large as a page of the attention layer."""
        page = plain_spec(self.main.layer, self.main, block_size).page_size_bytes
        if page % _ROW_BYTES or page // _ROW_BYTES < self.rows:
            raise model_refusal(
                "ValueError",
                f"Step5 CSA tail ring needs {self.rows} rows of {_ROW_BYTES} bytes in one "
                f"{page}-byte KV page; increase --block-size.",
            )
        return CircularBufferSpec(
            block_size=block_size,
            num_kv_heads=1,
            head_size=page // (block_size * DType.BFLOAT16.itemsize),
            head_size_v=0,
            dtype=DType.BFLOAT16,
            block_stride_alignment=_ROW_BYTES,
        )


def region_storage(scope: BuildScope, layer: RegionLayer) -> RegionStorage:
    """What the layer stores. Raises: EngineRefusalError."""
    settings = scope.settings
    drafts = settings.num_speculative_tokens if settings.speculative_method == "mtp" else 0
    return RegionStorage(
        layer=layer,
        backend=_BACKENDS[layer.part],
        main=attention_storage(scope, layer.beside),
        rows=_REGION - 1 + drafts,
    )
