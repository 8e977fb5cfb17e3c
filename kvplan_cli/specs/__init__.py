"""Layer specs: how one layer stores its cache, in bytes a block."""

from kvplan_cli.specs.attention import (
    AttentionSpec,
    CrossAttentionSpec,
    EncoderOnlyAttentionSpec,
)
from kvplan_cli.specs.base import (
    HiSparseHotSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    MambaCacheMode,
    MergeFailure,
    MultipleOf,
    RequestLimits,
    SpecError,
)
from kvplan_cli.specs.full import (
    FullAttentionSpec,
    HiddenStateCacheSpec,
    MLAAttentionSpec,
    RSWASpec,
    SinkFullAttentionSpec,
    SparseCacheRole,
)
from kvplan_cli.specs.state import MambaSpec
from kvplan_cli.specs.windows import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

__all__ = [
    "AttentionSpec",
    "ChunkedLocalAttentionSpec",
    "CircularBufferSpec",
    "CrossAttentionSpec",
    "EncoderOnlyAttentionSpec",
    "FullAttentionSpec",
    "HiSparseHotSpec",
    "HiSparseResidentSpec",
    "HiddenStateCacheSpec",
    "KVCacheSpec",
    "MLAAttentionSpec",
    "MambaCacheMode",
    "MambaSpec",
    "MergeFailure",
    "MultipleOf",
    "RSWASpec",
    "RequestLimits",
    "SinkFullAttentionSpec",
    "SlidingWindowMLASpec",
    "SlidingWindowSpec",
    "SparseCacheRole",
    "SpecError",
]
