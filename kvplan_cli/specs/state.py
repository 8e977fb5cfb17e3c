"""Specs of recurrent state layers (Mamba, linear attention, short convolution).

Source of names and rules: vLLM 0.33.0 ``vllm/v1/kv_cache_interface.py:MambaSpec``.
"""

from __future__ import annotations

import math

from kvplan_cli.dtypes import DType
from kvplan_cli.specs.base import KVCacheSpec, MambaCacheMode, RequestLimits, SpecError
from kvplan_cli.values import dataclass

# The engine's name of the backend that runs a state layer by default.
MAMBA2_BACKEND = "vllm.v1.attention.backends.mamba2_attn.Mamba2AttentionBackend"


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaSpec(KVCacheSpec):
    """The states of one layer of one sequence on one rank.

    shapes, dtypes: of each state, paired. page_size_padded: bytes the page is raised to.
    num_speculative_blocks, num_prefill_checkpoint_blocks: further states of a request.
    tp_replicated: every tensor parallel rank holds the whole state. mamba_type: the engine's
    name of the backend; it does not change a byte.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[DType, ...]
    page_size_padded: int | None = None
    mamba_type: str = MAMBA2_BACKEND
    mamba_cache_mode: MambaCacheMode = MambaCacheMode.NONE
    num_speculative_blocks: int = 0
    num_prefill_checkpoint_blocks: int = 0
    prefill_checkpoint_alignment: int | None = None
    tp_replicated: bool = False

    def __post_init__(self) -> None:
        if len(self.shapes) != len(self.dtypes):
            raise SpecError("shapes and dtypes must pair up")
        padded = self.page_size_padded
        if padded is not None and padded < self.state_content_size_bytes:
            raise SpecError(
                f"page_size_padded {padded} is below the states {self.state_content_size_bytes}"
            )
        KVCacheSpec.__post_init__(self)

    @property
    def num_heads(self) -> int:
        return 1

    @property
    def states_per_block(self) -> int:
        return 1

    @property
    def state_content_size_bytes(self) -> int:
        return sum(
            math.prod(shape) * dtype.itemsize
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )

    @property
    def padded_page(self) -> int | None:
        return self.page_size_padded

    def _page_size_bytes(self) -> int:
        if self.page_size_padded is not None:
            return self.page_size_padded
        return self.state_content_size_bytes

    def max_blocks_per_request(self, max_model_len: int, limits: RequestLimits) -> int:
        if limits.mamba_cache_mode is MambaCacheMode.ALIGN:
            return 2 + self.num_speculative_blocks + self.num_prefill_checkpoint_blocks
        return 1 + self.num_speculative_blocks

    def is_uniform_with(self, other: KVCacheSpec) -> bool:
        return (
            isinstance(other, MambaSpec)
            and other.num_speculative_blocks == self.num_speculative_blocks
            and other.num_prefill_checkpoint_blocks == self.num_prefill_checkpoint_blocks
            and other.prefill_checkpoint_alignment == self.prefill_checkpoint_alignment
            and other.page_size_bytes == self.page_size_bytes
            and other.tp_replicated == self.tp_replicated
        )
