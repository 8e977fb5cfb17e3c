"""Physical orders of a KV cache, and the strides that follow from them.

Source: vLLM 0.33.0 ``vllm/v1/kv_cache_layout.py`` and
``kv_cache_interface.py:compute_layout_strides``.
"""

from __future__ import annotations

from enum import Enum


class KVCacheLayout(Enum):
    """The order in memory of L layer, B block, H head, N state, C content, outermost first."""

    LBHNC = "LBHNC"
    LBNHC = "LBNHC"
    LHBNC = "LHBNC"
    BLHNC = "BLHNC"
    BLNHC = "BLNHC"
    BHLNC = "BHLNC"

    @property
    def is_layer_compact(self) -> bool:
        """Each layer is one contiguous region."""
        return self.value[0] == "L"

    @property
    def is_block_compact(self) -> bool:
        """Each page is one contiguous run."""
        return set(self.value[:2]) == {"L", "B"}

    @property
    def is_block_outermost(self) -> bool:
        """All pages of a block stand together."""
        return self.value[0] == "B"
