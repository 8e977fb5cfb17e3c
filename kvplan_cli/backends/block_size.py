"""The engine's block size after the platform has asked the backends.

Source: vLLM 0.33.0 ``vllm/platforms/interface.py:update_block_size_for_backend`` and
``vllm/model_executor/layers/attention/attention.py:_largest_kernel_block_within``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.backends.backend import (
    DEFAULT_BLOCK_SIZE,
    Backend,
    KernelBlockSize,
    base_of,
    preferred_block_size,
    supports_block_size,
)
from kvplan_cli.backends.facts import CurrentConfig, Facts
from kvplan_cli.backends.quant_modes import (
    cache_elements,
    kv_quant_mode,
    packs_keys_with_values,
)
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import DType
from kvplan_cli.specs import AttentionSpec, FullAttentionSpec, MLAAttentionSpec, MultipleOf
from kvplan_cli.units import cdiv, round_up
from kvplan_cli.values import dataclass

# Tokens that latent attention's kernel blocks fill together, in models with states beside it.
_LATENT_STEP: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBlocks:
    """Block sizes of one worker.

    block_size: tokens. skip_page_size_padded: bytes that a layer left out of KV quantization
    pads its page to, None where nothing is padded. mamba_block_size, mamba_page_size_padded:
    the same of layers with recurrent states. checkpoint_alignment: tokens that all of these
    can hand states out at inside a prefill, None where one cannot.
    """

    block_size: int
    skip_page_size_padded: int | None = None
    mamba_block_size: int | None = None
    mamba_page_size_padded: int | None = None
    checkpoint_alignment: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNeeds:
    """What recurrent states ask of a worker's blocks.

    page_size_bytes: of the largest state, 0 where it shares no blocks with attention.
    block_size: tokens that a state stands for before blocks are aligned. aligned: states are
    cached at block ends, so their blocks are attention's. checkpoint_alignment: as above.
    """

    page_size_bytes: int
    block_size: int
    aligned: bool
    checkpoint_alignment: int | None


def stage_blocks(
    backends: Sequence[Backend],
    facts: Facts,
    *,
    requested: int | None,
    model_dtype: DType,
    skips_layers: bool,
    states: StateNeeds | None = None,
) -> StageBlocks:
    """The block size of a worker whose distinct attention backends, in layer order, are
    ``backends``.

    requested: --block-size, None where the engine chooses. skips_layers: some layers are left
    out of KV quantization, so two page sizes share one pool. Raises: EngineRefusalError.
    """
    blocks = StageBlocks(
        block_size=requested or DEFAULT_BLOCK_SIZE,
        mamba_block_size=states.block_size if states else None,
        checkpoint_alignment=states.checkpoint_alignment if states else None,
    )
    if not backends:
        return blocks
    chosen = requested if requested is not None else common_block_size(backends, facts)
    blocks = replace(blocks, block_size=chosen)
    if states is not None and states.page_size_bytes:
        per_token = _hybrid_bytes_per_token(backends[0], facts, model_dtype, skips_layers)
        blocks = _aligned_for_states(backends, facts, blocks, states, per_token)
    if skips_layers:
        blocks = _aligned_for_skipped(backends[0], facts, blocks, model_dtype)
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


def _aligned_for_states(
    backends: Sequence[Backend],
    facts: Facts,
    blocks: StageBlocks,
    states: StateNeeds,
    per_token: int,
) -> StageBlocks:
    """Raise the block size until attention's page covers a state, and pad states to it.

    per_token: bytes of attention's page. Source: vLLM 0.33.0
    ``interface.py:_align_hybrid_block_size``.
    """
    step = max(_smallest_kernel_block(backends[0], facts), blocks.block_size)
    if facts.config is not None and facts.config.latent is not None:
        step = max(step, _LATENT_STEP)
    if states.aligned:
        step = math.lcm(step, states.checkpoint_alignment or 1)
    multiple = math.lcm(*(_smallest_kernel_block(backend, facts) for backend in backends))
    covering = round_up(step * cdiv(states.page_size_bytes, step * per_token), multiple)
    block_size = max(blocks.block_size, covering)
    page = block_size * per_token
    return replace(
        blocks,
        block_size=block_size,
        mamba_block_size=block_size if states.aligned else blocks.mamba_block_size,
        mamba_page_size_padded=page if page != states.page_size_bytes else None,
    )


def _smallest_kernel_block(backend: Backend, facts: Facts) -> int:
    return min((base_of(size) for size in backend.kernel_block_sizes(facts, None)), default=1)


def _hybrid_bytes_per_token(
    backend: Backend, facts: Facts, model_dtype: DType, skips_layers: bool
) -> int:
    """Bytes of attention's page, a token; with layers left plain, of both kinds of page."""
    config = facts.config
    assert config is not None, "block sizes are chosen with the engine's config in scope"
    if config.latent is not None:
        return _latent_bytes_per_token(config, model_dtype)
    primary = _bytes_per_token(backend, config, config.cache_dtype, model_dtype)
    if not skips_layers or not packs_keys_with_values(config.cache_dtype):
        return primary
    return math.lcm(primary, _bytes_per_token(None, config, "auto", model_dtype))


def _latent_bytes_per_token(config: CurrentConfig, model_dtype: DType) -> int:
    return MLAAttentionSpec(
        block_size=1,
        num_kv_heads=1,
        head_size=config.head_size,
        dtype=cache_elements(config.cache_dtype, model_dtype),
        cache_dtype_str=config.cache_dtype,
        kv_quant_mode=kv_quant_mode(config.cache_dtype),
    ).page_size_bytes


def _aligned_for_skipped(
    backend: Backend, facts: Facts, blocks: StageBlocks, model_dtype: DType
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
        return blocks
    smallest = _smallest_kernel_block(backend, facts)
    step = max(smallest, blocks.block_size)
    required = max(plain * smallest, blocks.mamba_page_size_padded or 0)
    aligned = max(blocks.block_size, step * cdiv(required, step * primary))
    page = aligned * primary
    return replace(
        blocks,
        block_size=aligned,
        skip_page_size_padded=page,
        mamba_page_size_padded=None if blocks.mamba_page_size_padded is None else page,
    )


def _bytes_per_token(
    backend: Backend | None, config: CurrentConfig, kv_cache_dtype: str, model_dtype: DType
) -> int:
    spec = FullAttentionSpec(
        block_size=1,
        num_kv_heads=config.num_kv_heads,
        head_size=config.head_size,
        dtype=cache_elements(kv_cache_dtype, model_dtype),
        kv_quant_mode=kv_quant_mode(kv_cache_dtype),
    )
    return (backend.packing(spec) if backend else spec).page_size_bytes


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
