"""The engine's block size after the platform has asked the backends.

Source: vLLM 0.33.0 ``vllm/platforms/interface.py:update_block_size_for_backend`` and
``vllm/model_executor/layers/attention/attention.py:_largest_kernel_block_within``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from kvplan_cli.backends.backend import (
    DEFAULT_BLOCK_SIZE,
    Backend,
    KernelBlockSize,
    base_of,
    preferred_block_size,
    supports_block_size,
)
from kvplan_cli.backends.facts import CurrentConfig, Facts
from kvplan_cli.backends.quant_modes import cache_elements, kv_quant_mode
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import DType
from kvplan_cli.specs import AttentionSpec, FullAttentionSpec, MultipleOf
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBlocks:
    """Block sizes of one worker.

    block_size: tokens. skip_page_size_padded: bytes that a layer left out of KV quantization
    pads its page to, None where nothing is padded.
    """

    block_size: int
    skip_page_size_padded: int | None = None


def stage_blocks(
    backends: Sequence[Backend],
    facts: Facts,
    *,
    requested: int | None,
    model_dtype: DType,
    skips_layers: bool,
) -> StageBlocks:
    """The block size of a worker whose distinct backends, in layer order, are ``backends``.

    requested: --block-size, None where the engine chooses. skips_layers: some layers are left
    out of KV quantization, so two page sizes share one pool. Raises: EngineRefusalError.
    """
    if not backends:
        return StageBlocks(block_size=requested or DEFAULT_BLOCK_SIZE)
    chosen = requested if requested is not None else common_block_size(backends, facts)
    if not skips_layers:
        return StageBlocks(block_size=chosen)
    blocks = _aligned_for_skipped(backends[0], facts, chosen, model_dtype)
    if blocks.block_size != chosen:
        _check_aligned(backends, facts, blocks.block_size)
    return blocks


def common_block_size(backends: Sequence[Backend], facts: Facts) -> int:
    """The smallest block size that every backend takes, 16 if all do."""
    if len(backends) == 1:
        return preferred_block_size(backends[0], facts)
    if all(supports_block_size(b, facts, DEFAULT_BLOCK_SIZE) for b in backends):
        return DEFAULT_BLOCK_SIZE
    sizes = [b.kernel_block_sizes(facts, None) for b in backends]
    bases = [[base_of(size) for size in per_backend] or [1] for per_backend in sizes]
    for candidate in sorted({math.lcm(*choice) for choice in itertools.product(*bases)}):
        if all(supports_block_size(b, facts, candidate) for b in backends):
            return candidate
    shown = "; ".join(
        f"{b.name}: [{', '.join(map(_shown, per_backend))}]"
        for b, per_backend in zip(backends, sizes, strict=True)
    )
    raise model_refusal(
        "ValueError",
        f"The attention backends share no supported KV cache block size ({shown}).",
    )


def _shown(size: KernelBlockSize) -> str:
    return f"MultipleOf({size.base})" if isinstance(size, MultipleOf) else str(size)


def _aligned_for_skipped(
    backend: Backend, facts: Facts, block_size: int, model_dtype: DType
) -> StageBlocks:
    """Raise the block size until the quantized page covers a plain page of a kernel block.

    Source: vLLM 0.33.0 ``interface.py:_align_heterogeneous_kv_block_size``.
    """
    config = facts.config
    assert config is not None, "block sizes are chosen with the engine's config in scope"
    primary = _bytes_per_token(backend, config, config.cache_dtype, model_dtype)
    plain = _bytes_per_token(backend, config, "auto", model_dtype)
    if plain < primary:
        raise model_refusal(
            "AssertionError",
            f"padded-spec per-token page ({plain}B) < primary ({primary}B); a higher-precision "
            "padded spec must not be smaller than the quantized primary.",
        )
    if plain == primary:
        return StageBlocks(block_size=block_size)
    smallest = min(base_of(size) for size in backend.kernel_block_sizes(facts, None))
    step = max(smallest, block_size)
    aligned = max(block_size, step * cdiv(plain * smallest, step * primary))
    return StageBlocks(block_size=aligned, skip_page_size_padded=aligned * primary)


def _bytes_per_token(
    backend: Backend, config: CurrentConfig, kv_cache_dtype: str, model_dtype: DType
) -> int:
    spec = FullAttentionSpec(
        block_size=1,
        num_kv_heads=config.num_kv_heads,
        head_size=config.head_size,
        dtype=cache_elements(kv_cache_dtype, model_dtype),
        kv_quant_mode=kv_quant_mode(kv_cache_dtype),
    )
    return backend.packing(spec).page_size_bytes


def _check_aligned(backends: Sequence[Backend], facts: Facts, block_size: int) -> None:
    rejecting = [b.name for b in backends if not supports_block_size(b, facts, block_size)]
    if rejecting:
        raise model_refusal(
            "ValueError",
            f"Aligned KV cache block size {block_size} is not supported by attention "
            f"backend(s): {', '.join(rejecting)}.",
        )


def largest_kernel_block(
    backend: Backend, facts: Facts, spec: AttentionSpec, page_budget: int
) -> int:
    """The largest kernel block of the layer whose page fits ``page_budget`` bytes.

    spec: the packed layer with blocks of one token. The smallest kernel block where none fits.
    """
    per_token = spec.unpadded_page_size_bytes
    tokens = page_budget // per_token
    sizes = backend.kernel_block_sizes(facts, spec)
    candidates = [
        max(size.base, tokens // size.base * size.base) if isinstance(size, MultipleOf) else size
        for size in sizes
    ]
    fitting = [size for size in candidates if size * per_token <= page_budget]
    return max(fitting) if fitting else min(candidates)
