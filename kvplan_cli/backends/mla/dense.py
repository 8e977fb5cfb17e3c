"""Backends that attend to every latent vector.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/{cutlass_mla,flashattn_mla,flashinfer_mla,
flashmla,tokenspeed_mla,triton_mla}.py`` and ``MLACommonBackend`` in
``vllm/model_executor/layers/attention/mla_attention.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan_cli.backends.backend import Backend, KernelBlockSize
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.dtypes import DType
from kvplan_cli.specs import AttentionSpec, MultipleOf

HALF = frozenset({DType.FLOAT16, DType.BFLOAT16})
PLAIN = ("auto", "float16", "bfloat16")
FP8 = ("fp8", "fp8_e4m3")


def one_of(*names: str) -> Callable[[str, Facts], bool]:
    """Whether a KV dtype is one of these."""
    return lambda kv_cache_dtype, _facts: kv_cache_dtype in names


def head_sizes(*sizes: int) -> Callable[[int, Facts], bool]:
    """Whether a token's state has one of these sizes, in elements."""
    return lambda head_size, _facts: head_size in sizes


def blocks(
    *sizes: KernelBlockSize,
) -> Callable[[Facts, AttentionSpec | None], tuple[KernelBlockSize, ...]]:
    """The same kernel block sizes for every card and spec."""
    return lambda _facts, _spec: sizes


_COMMON_SIZES = head_sizes(320, 512, 576)
_R1_DIMS = (128, 64, 128)


def flash_attn_mla_objection(_request: BackendRequest, facts: Facts) -> str | None:
    """FlashAttention's latent kernels are Hopper's."""
    return None if facts.major == 9 else "FlashAttention MLA not supported on this device"


def _flashmla_objection(request: BackendRequest, facts: Facts) -> str | None:
    if request.use_sparse:
        if facts.major in (9, 10):
            return None
        return "FlashMLA Sparse is only supported on Hopper and Blackwell DC devices."
    return None if facts.major == 9 else "FlashMLA Dense is only supported on Hopper devices."


def _flashinfer_objection(_request: BackendRequest, facts: Facts) -> str | None:
    latent = facts.config and facts.config.latent
    nope = latent.qk_nope_head_dim if latent else 1
    if nope in (64, 128, 192):
        return None
    return f"FlashInfer MLA kernel requires qk_nope_head_dim in [64, 128, 192], but got {nope}"


def _tokenspeed_objection(_request: BackendRequest, facts: Facts) -> str | None:
    if facts.config is None:
        return None
    latent, dims = facts.config.latent, (0, 0, 0)
    if latent is not None:
        dims = (latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim)
    if dims == _R1_DIMS:
        return None
    return (
        "tokenspeed_mla requires DeepSeek R1 MLA dimensions (qk_nope_head_dim=128, "
        f"qk_rope_head_dim=64, v_head_dim=128), got {dims}"
    )


FLASH_ATTN_MLA = Backend(
    name="FLASH_ATTN_MLA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN),
    head_size=_COMMON_SIZES,
    kernel_block_sizes=blocks(MultipleOf(16)),
    capability=lambda capability: capability[0] == 9,
    batch_invariance=True,
    mla=True,
    pcp=True,
    dcp=True,
    objection=flash_attn_mla_objection,
)
FLASHMLA = Backend(
    name="FLASHMLA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN, *FP8),
    head_size=_COMMON_SIZES,
    kernel_block_sizes=blocks(64),
    capability=lambda capability: capability[0] in (9, 10),
    mla=True,
    pcp=True,
    dcp=True,
    objection=_flashmla_objection,
)
FLASHINFER_MLA = Backend(
    name="FLASHINFER_MLA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN, *FP8),
    head_size=_COMMON_SIZES,
    kernel_block_sizes=blocks(32, 64),
    capability=lambda capability: capability[0] == 10,
    non_causal=True,
    mla=True,
    pcp=True,
    dcp=True,
    non_causal_dcp=True,
    objection=_flashinfer_objection,
)
TOKENSPEED_MLA = Backend(
    name="TOKENSPEED_MLA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*FP8),
    head_size=_COMMON_SIZES,
    kernel_block_sizes=blocks(32, 64),
    capability=lambda capability: capability[0] == 10,
    non_causal=True,
    mla=True,
    pcp=True,
    dcp=True,
    non_causal_dcp=True,
    objection=_tokenspeed_objection,
)
CUTLASS_MLA = Backend(
    name="CUTLASS_MLA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN, *FP8),
    head_size=_COMMON_SIZES,
    kernel_block_sizes=blocks(128),
    capability=lambda capability: capability[0] == 10,
    mla=True,
    pcp=True,
    dcp=True,
)
TRITON_MLA = Backend(
    name="TRITON_MLA",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN, *FP8),
    kernel_block_sizes=blocks(MultipleOf(16)),
    non_causal=True,
    batch_invariance=True,
    mla=True,
    pcp=True,
    dcp=True,
)
