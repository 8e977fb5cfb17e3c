"""What the engine reads of a card."""

from __future__ import annotations

from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A card as CUDA reports it.

    name: the driver's device name (the engine compares it). capability: major and minor
    compute capability. total_memory_bytes: what CUDA calls total, not the marketing size.
    """

    name: str
    capability: tuple[int, int]
    total_memory_bytes: int


def runs_flash_attention_4(capability: tuple[int, int]) -> bool:
    """Whether FlashAttention 4 has kernels for the card.

    Source: vLLM 0.33.0 ``vllm/vllm_flash_attn/flash_attn_interface.py:is_fa_version_supported``.
    """
    return capability[0] in (9, 10, 11)


# The card that a plan assumes for the engine's settings when none is named.
# Total memory: the engine's vectors for this card.
H100_80GB = Gpu(name="NVIDIA H100 80GB HBM3", capability=(9, 0), total_memory_bytes=85_520_809_984)
