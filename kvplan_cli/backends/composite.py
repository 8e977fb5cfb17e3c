"""Two backends as one: the first for image masks, the second for causal queries.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/composite.py``, ``triton_flash_attn.py``
and ``triton_flashinfer.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kvplan_cli.backends import flash_attention as flash
from kvplan_cli.backends.backend import Backend, KernelBlockSize, Layouts, supports_block_size
from kvplan_cli.backends.capabilities import FLASH_ATTN, FLASHINFER, TRITON_ATTN, flash_objection
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layouts import shared_layouts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.specs import AttentionSpec, MultipleOf

_HEAD_SIZES = (256, 512)


def common_kernel_blocks(
    first: tuple[KernelBlockSize, ...], second: tuple[KernelBlockSize, ...]
) -> tuple[KernelBlockSize, ...]:
    """Kernel block sizes that both sets allow, without repetition."""
    common = (_common(left, right) for left in first for right in second)
    return tuple(dict.fromkeys(size for size in common if size is not None))


def _common(left: KernelBlockSize, right: KernelBlockSize) -> KernelBlockSize | None:
    if isinstance(left, MultipleOf) and isinstance(right, MultipleOf):
        return MultipleOf(math.lcm(left.base, right.base))
    if isinstance(left, MultipleOf):
        assert isinstance(right, int)
        return right if right % left.base == 0 else None
    if isinstance(right, MultipleOf):
        return left if left % right.base == 0 else None
    return left if left == right else None


def compose(
    name: str, general: Backend, causal: Backend, *, kernel_blocks: tuple[int, ...] = ()
) -> Backend:
    """One backend of two that share their storage.

    kernel_blocks: the kernel block sizes to choose from; none given: all common ones.
    """
    parts = (general, causal)

    def sizes(facts: Facts, spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
        if kernel_blocks:
            return tuple(
                size
                for size in kernel_blocks
                if all(supports_block_size(part, facts, size) for part in parts)
            )
        return common_kernel_blocks(
            general.kernel_block_sizes(facts, spec), causal.kernel_block_sizes(facts, spec)
        )

    def objection(request: BackendRequest, facts: Facts) -> str | None:
        # Only the general part sees image masks.
        asked = ((general, request), (causal, replace(request, use_mm_prefix=False)))
        for part, part_request in asked:
            reason = part.objection(part_request, facts)
            if reason is not None:
                return f"{part.name}: {reason}"
        return None

    def packing(spec: AttentionSpec) -> AttentionSpec:
        packed = general.packing(spec)
        if packed != causal.packing(spec):
            raise model_refusal("ValueError", "Composite backends require the same KV cache spec")
        return packed

    def layouts(facts: Facts) -> Layouts:
        return shared_layouts(parts, facts)

    return Backend(
        name=name,
        dtypes=general.dtypes & causal.dtypes,
        kv_cache_dtype=lambda name, facts: all(p.kv_cache_dtype(name, facts) for p in parts),
        head_size=lambda size, facts: (
            size in _HEAD_SIZES and all(part.head_size(size, facts) for part in parts)
        ),
        kernel_block_sizes=sizes,
        capability=lambda capability: all(part.capability(capability) for part in parts),
        mm_prefix=general.mm_prefix,
        sliding_window=general.sliding_window and causal.sliding_window,
        rswa=general.rswa and causal.rswa,
        layouts=layouts,
        objection=objection,
        packing=packing,
        rejects_empty_sizes=True,
    )


def _causal_flash_objection(request: BackendRequest, facts: Facts) -> str | None:
    reason = flash_objection(request, facts)
    if reason is not None:
        return reason
    query = flash.VersionQuery(
        head_size=request.head_size,
        has_sinks=request.has_sink,
        kv_cache_block_size=request.block_size,
        takes_hd256_kernel=True,
    )
    if flash.flash_attn_version(facts, query) not in (3, 4):
        return "causal route requires FlashAttention v3 or v4"
    return None


TRITON_FLASH_ATTN = compose(
    "TRITON_FLASH_ATTN",
    TRITON_ATTN,
    replace(
        FLASH_ATTN,
        capability=lambda capability: capability[0] == 9,
        objection=_causal_flash_objection,
    ),
)

TRITON_FLASHINFER = compose(
    "TRITON_FLASHINFER",
    TRITON_ATTN,
    replace(
        FLASHINFER,
        capability=lambda capability: capability[0] == 10 and FLASHINFER.capability(capability),
    ),
    kernel_blocks=(64,),
)
