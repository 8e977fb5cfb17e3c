"""What one layer asks of an attention backend, and how the engine prints it.

Source: vLLM 0.33.0 ``vllm/v1/attention/selector.py:AttentionSelectorConfig``.
"""

from __future__ import annotations

from enum import Enum

from kvplan_cli.dtypes import DType
from kvplan_cli.values import dataclass


class AttentionType(Enum):
    """Whose keys a query sees. Source: vLLM 0.33.0 ``backend.py:AttentionType``."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_ONLY = "encoder_only"
    ENCODER_DECODER = "encoder_decoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRequest:
    """The engine's selector config of one layer.

    block_size: tokens, only where the user gave --block-size. num_heads: attention heads of
    a rank, where the layer tells; the engine does not print them.
    """

    head_size: int
    dtype: DType
    kv_cache_dtype: str
    block_size: int | None = None
    use_mla: bool = False
    has_sink: bool = False
    use_sparse: bool = False
    use_mm_prefix: bool = False
    use_per_head_quant_scales: bool = False
    attn_type: AttentionType = AttentionType.DECODER
    has_sliding_window: bool = False
    use_non_causal: bool = False
    use_batch_invariant: bool = False
    use_pcp: bool = False
    use_dcp: bool = False
    use_rswa: bool = False
    num_heads: int | None = None

    def describe(self) -> str:
        """The request as the engine's refusals print it."""
        return (
            f"AttentionSelectorConfig(head_size={self.head_size}, "
            f"dtype=torch.{self.dtype.torch_name}, "
            f"kv_cache_dtype={self.kv_cache_dtype}, block_size={self.block_size}, "
            f"use_mla={self.use_mla}, has_sink={self.has_sink}, "
            f"use_sparse={self.use_sparse}, use_mm_prefix={self.use_mm_prefix}, "
            f"use_per_head_quant_scales={self.use_per_head_quant_scales}, "
            f"attn_type={self.attn_type}, has_sliding_window={self.has_sliding_window}, "
            f"use_non_causal={self.use_non_causal}, "
            f"use_batch_invariant={self.use_batch_invariant}, use_kv_connector=False, "
            f"use_adaptive_verification=False, use_pcp={self.use_pcp}, "
            f"use_dcp={self.use_dcp}, use_rswa={self.use_rswa})"
        )
