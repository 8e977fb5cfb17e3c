"""The table of attention backends that serve layers with keys and values on CUDA.

A row a backend. Rows take model dtype float16 and bfloat16 and decoder attention unless
they say otherwise. Source: vLLM 0.33.0 ``vllm/v1/attention/backends/{flash_attn,flashinfer,
triton_attn,flex_attention,turboquant_attn,ultraquant_attn,flash_attn_diffkv,
triton_attn_diffkv}.py`` and ``vllm/models/inkling/nvidia/sconv_swa_attn.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from kvplan_cli.backends import flash_attention as flash
from kvplan_cli.backends.backend import Backend, KernelBlockSize, Layouts, always
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.packing import (
    nvfp4_slots,
    per_token_head_scales,
    turboquant_slot,
    ultraquant_slot,
)
from kvplan_cli.backends.quant_modes import is_quantized
from kvplan_cli.backends.request import AttentionType, BackendRequest
from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import AttentionSpec, MultipleOf

_HALF = frozenset({DType.FLOAT16, DType.BFLOAT16})
_HALF_OR_SINGLE = _HALF | {DType.FLOAT32}
_PLAIN = ("auto", "float16", "bfloat16")
_FP8 = ("fp8", "fp8_e4m3")
_FP8_KINDS = (*_FP8, "fp8_e5m2")
_PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
_ALL_TYPES = frozenset(AttentionType)


def _one_of(names: Iterable[str]) -> Callable[[str, Facts], bool]:
    allowed = frozenset(names)
    return lambda kv_cache_dtype, _facts: kv_cache_dtype in allowed


def _only(*layouts: KVCacheLayout) -> Callable[[Facts], Layouts | None]:
    return lambda _facts: layouts


def _multiples_of_16(_facts: Facts, _spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    return (MultipleOf(16),)


# --- FlashAttention ---------------------------------------------------------------------


def _flash_head_size(head_size: int, facts: Facts) -> bool:
    longest = 512 if flash.is_version_supported(4, facts) else 256
    return head_size % 8 == 0 and head_size <= longest


def _flash_kv_cache_dtype(kv_cache_dtype: str, facts: Facts) -> bool:
    if kv_cache_dtype in _FP8:
        return flash.supports_kv_cache_dtype(facts, kv_cache_dtype, flash.VersionQuery())
    return kv_cache_dtype in _PLAIN


def _flash_kernel_blocks(facts: Facts, spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    if _dequantizes_on_hopper(facts, spec):
        return (64,)
    if _runs_hd256_kernel(facts, spec):
        return (flash.HD256_PAGE_SIZE,)
    return (MultipleOf(16),)


def _dequantizes_on_hopper(facts: Facts, spec: AttentionSpec | None) -> bool:
    """FP8 keys of head size 512 are read in tiles of 64 tokens on SM90."""
    if spec is not None:
        head_size, fp8 = spec.head_size, spec.kv_quant_mode is KVQuantMode.FP8_PER_TENSOR
    elif facts.config is not None:
        head_size, fp8 = facts.config.head_size, facts.config.cache_dtype in _FP8
    else:
        return False
    if facts.major != 9 or not fp8 or head_size != 512:
        return False
    return flash.flash_attn_version(facts, flash.VersionQuery(head_size=head_size)) == 4


def _runs_hd256_kernel(facts: Facts, spec: AttentionSpec | None) -> bool:
    if spec is not None:
        head_size, head_size_v = spec.head_size, spec.head_size_v
    elif facts.config is not None:
        head_size, head_size_v = facts.config.head_size, None
    else:
        return False
    query = flash.VersionQuery(
        head_size=head_size, head_size_v=head_size_v, takes_hd256_kernel=True
    )
    return (
        flash.uses_hd256_kernel(facts, head_size, head_size_v)
        and flash.flash_attn_version(facts, query) == 4
    )


def _flash_query(request: BackendRequest) -> flash.VersionQuery:
    return flash.VersionQuery(
        head_size=request.head_size,
        has_sinks=request.has_sink,
        kv_cache_block_size=request.block_size,
        takes_hd256_kernel=True,
    )


def flash_objection(request: BackendRequest, facts: Facts) -> str | None:
    """Combinations that FlashAttention refuses. Source: ``flash_attn.py:supports_combination``."""
    quantized = is_quantized(request.kv_cache_dtype)
    if request.has_sink and facts.capability < (9, 0):
        return "sink not supported on compute capability < 9.0"
    if request.use_mm_prefix and quantized and facts.capability == (9, 0):
        return "SM90 FP8 KV with mm_prefix requires Triton"
    if quantized and not _reads_quantized(request, facts):
        return "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"
    if request.use_mm_prefix and flash.flash_attn_version(facts, _flash_query(request)) != 4:
        return (
            "mm_prefix (PrefixLM bidirectional attention) requires FlashAttention v4, which "
            "does not resolve for this head_size"
        )
    return None


def _reads_quantized(request: BackendRequest, facts: Facts) -> bool:
    query = flash.VersionQuery(
        head_size=request.head_size,
        head_size_v=request.head_size,
        has_sinks=request.has_sink,
        kv_cache_block_size=request.block_size,
        takes_hd256_kernel=True,
    )
    return flash.supports_kv_cache_dtype(facts, request.kv_cache_dtype, query)


FLASH_ATTN = Backend(
    name="FLASH_ATTN",
    dtypes=_HALF,
    kv_cache_dtype=_flash_kv_cache_dtype,
    head_size=_flash_head_size,
    kernel_block_sizes=_flash_kernel_blocks,
    capability=lambda capability: capability >= (8, 0),
    attention_types=_ALL_TYPES,
    sink=flash.supports_sinks,
    mm_prefix=lambda facts: flash.is_version_supported(4, facts),
    per_head_quant_scales=lambda facts: (
        flash.flash_attn_version(facts, flash.VersionQuery()) in (3, 4)
    ),
    sliding_window=True,
    rswa=True,
    non_causal=True,
    batch_invariance=True,
    dcp=True,
    objection=flash_objection,
)

# --- FlashInfer -------------------------------------------------------------------------


def _flashinfer_kv_cache_dtype(kv_cache_dtype: str, facts: Facts) -> bool:
    if not kv_cache_dtype.startswith("nvfp4"):
        return kv_cache_dtype in (*_PLAIN, *_FP8_KINDS)
    if facts.major in (8, 9, 12):
        return kv_cache_dtype == "nvfp4"
    return facts.major == 10 and not facts.batch_invariant


def _flashinfer_kernel_blocks(
    facts: Facts, _spec: AttentionSpec | None
) -> tuple[KernelBlockSize, ...]:
    if _large_pages_usable(facts):
        return (16, 32, 64, 128, 256, 512, 1024)
    return (16, 32, 64)


def _large_pages_usable(facts: Facts) -> bool:
    """Pages of 128 tokens and more need Blackwell's grouped-query kernel."""
    config = facts.config
    if config is None or config.num_kv_heads == 0 or facts.major != 10:
        return False
    group, rest = divmod(config.num_attention_heads, config.num_kv_heads)
    return group > 1 and rest == 0 and not facts.batch_invariant


def _flashinfer_objection(request: BackendRequest, facts: Facts) -> str | None:
    if request.kv_cache_dtype.startswith("nvfp4") and facts.major in (8, 9, 12):
        if request.head_size == 64:
            return "fa2 prefill misreads an NVFP4 KV cache at head_size 64"
        if request.has_sink:
            return "the sink prefill wrapper cannot read an NVFP4 KV cache"
    return None


def _flashinfer_layouts(facts: Facts) -> Layouts | None:
    """Blackwell's kernels read head-major blocks."""
    return (KVCacheLayout.LBHNC, KVCacheLayout.BLHNC) if facts.major == 10 else None


FLASHINFER = Backend(
    name="FLASHINFER",
    dtypes=_HALF,
    kv_cache_dtype=_flashinfer_kv_cache_dtype,
    head_size=lambda head_size, _facts: head_size in (64, 128, 256, 512),
    kernel_block_sizes=_flashinfer_kernel_blocks,
    capability=lambda capability: (8, 0) <= capability <= (12, 1),
    sink=lambda facts: (
        (facts.capability == (9, 0) or facts.major in (10, 12)) and not facts.batch_invariant
    ),
    sliding_window=True,
    non_causal=True,
    dcp=True,
    layouts=_flashinfer_layouts,
    objection=_flashinfer_objection,
    packing=nvfp4_slots,
)

# --- Triton, FlexAttention, packed caches -----------------------------------------------

TRITON_ATTN = Backend(
    name="TRITON_ATTN",
    dtypes=_HALF_OR_SINGLE,
    kv_cache_dtype=_one_of((*_PLAIN, *_FP8_KINDS, *_PER_TOKEN_HEAD)),
    head_size=lambda head_size, _facts: head_size >= 32,
    kernel_block_sizes=_multiples_of_16,
    attention_types=_ALL_TYPES,
    sink=always,
    mm_prefix=always,
    sliding_window=True,
    rswa=True,
    non_causal=True,
    batch_invariance=True,
    packing=per_token_head_scales,
)

FLEX_ATTENTION = Backend(
    name="FLEX_ATTENTION",
    dtypes=_HALF_OR_SINGLE,
    kv_cache_dtype=_one_of(_PLAIN),
    kernel_block_sizes=_multiples_of_16,
    attention_types=frozenset({AttentionType.DECODER, AttentionType.ENCODER_ONLY}),
    mm_prefix=always,
    sliding_window=True,
    rswa=True,
    non_causal=True,
    batch_invariance=True,
    layouts=_only(KVCacheLayout.LBNHC),
)

TURBOQUANT = Backend(
    name="TURBOQUANT",
    dtypes=_HALF,
    kv_cache_dtype=lambda kv_cache_dtype, _facts: kv_cache_dtype.startswith("turboquant_"),
    head_size=lambda head_size, _facts: head_size > 0,
    kernel_block_sizes=lambda _facts, _spec: (16, 32, 64, 128),
    layouts=_only(KVCacheLayout.LBNHC),
    packing=turboquant_slot,
)

ULTRAQUANT = Backend(
    name="ULTRAQUANT",
    dtypes=frozenset({DType.BFLOAT16}),
    kv_cache_dtype=_one_of(("ultraquant_4bit",)),
    head_size=lambda head_size, _facts: head_size > 0,
    kernel_block_sizes=lambda _facts, _spec: (16, 32, 64, 128),
    layouts=_only(KVCacheLayout.LBNHC),
    packing=ultraquant_slot,
    preferred_block_size=64,
)

# --- Layers that name their backend themselves: nothing is selected or validated ---------


def _diff_kv_kernel_blocks(facts: Facts, spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    """The whole model has values of another size: no kernel for keys and values of 256."""
    if spec is None and not _dequantizes_on_hopper(facts, spec):
        return (MultipleOf(16),)
    return _flash_kernel_blocks(facts, spec)


FLASH_ATTN_DIFFKV = replace(
    FLASH_ATTN, name="FLASH_ATTN_DIFFKV", kernel_block_sizes=_diff_kv_kernel_blocks
)

TRITON_ATTN_DIFFKV = replace(
    TRITON_ATTN,
    name="TRITON_ATTN_DIFFKV",
    kv_cache_dtype=_one_of(("auto", "bfloat16", *_FP8)),
    attention_types=frozenset({AttentionType.DECODER}),
)

# Inkling's short-convolution states: the engine manages their blocks, nothing attends.
INKLING_SCONV_SWA = Backend(name="INKLING_SCONV_SWA", dtypes=_HALF, kv_cache_dtype=_one_of(_PLAIN))
