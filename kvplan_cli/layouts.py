"""Physical orders of a KV cache, and the strides that follow from them.

Source: vLLM 0.33.0 ``vllm/v1/kv_cache_layout.py`` and
``kv_cache_interface.py:compute_layout_strides``.
"""

from __future__ import annotations

from enum import Enum

from kvplan_cli.specs.base import KVCacheSpec


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


class LayoutError(ValueError):
    """A layout that cannot hold such pages."""


def layer_and_block_stride(
    spec: KVCacheSpec,
    *,
    num_layers: int,
    num_blocks: int,
    layout: KVCacheLayout,
    block_stride: int | None = None,
) -> tuple[int, int]:
    """Bytes from one layer to the next and from one block to the next.

    Strides grow from the innermost dimension outwards; a padded page lifts the stride at the
    edge of the (layer, block) grid. block_stride: fixed from outside, None where the order
    decides. Raises: LayoutError when a padded page is cut by heads or states.
    """
    extent = {
        "L": num_layers,
        "B": num_blocks,
        "H": spec.num_heads,
        "N": spec.states_per_block,
        "C": spec.state_content_size_bytes,
    }
    order = layout.value
    padded = spec.padded_page
    edge = max(order.index("L"), order.index("B"))
    if padded is not None and any(extent[d] != 1 for d in order[: edge + 1] if d not in "LB"):
        raise LayoutError(f"{layout.value} cannot pad pages")
    strides: dict[str, int] = {}
    stride = 1
    for position in range(len(order) - 1, -1, -1):
        dim = order[position]
        if padded is not None and position == edge:
            stride = max(stride, padded)
        if dim == "B" and block_stride is not None:
            stride = block_stride
        strides[dim] = stride
        stride *= extent[dim]
    return strides["L"], strides["B"]
