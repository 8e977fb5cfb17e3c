"""Backends that attend to the latent vectors that an indexer chose.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/{flashattn_mla_sparse,flashinfer_mla_sparse,
flashinfer_mla_sparse_sm90,flashmla_sparse,sparse_utils}.py``.
"""

from __future__ import annotations

from kvplan_cli.backends import flash_attention as flash
from kvplan_cli.backends.backend import Backend, KernelBlockSize
from kvplan_cli.backends.facts import CurrentConfig, Facts, LatentDims
from kvplan_cli.backends.mla.dense import (
    FP8,
    HALF,
    PLAIN,
    blocks,
    flash_attn_mla_objection,
    head_sizes,
    one_of,
)
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.specs import AttentionSpec, MultipleOf

_BFLOAT16 = frozenset({DType.BFLOAT16})
# Tokens of a page of FlashMLA's quantized kernel.
_QUANTIZED_PAGE = 64


def _rows(rows: int, spec: AttentionSpec) -> int:
    """Kernels read the cache as flat rows, in pages of ``rows``: blocks are whole pages apart."""
    return rows * spec.state_content_size_bytes


def _latent(facts: Facts) -> tuple[CurrentConfig, LatentDims] | None:
    config = facts.config
    return (config, config.latent) if config is not None and config.latent is not None else None


def _index_topk(config: CurrentConfig) -> int | None:
    return config.latent.index_topk if config.latent is not None else None


def _flash_objection(request: BackendRequest, facts: Facts) -> str | None:
    if request.kv_cache_dtype not in PLAIN:
        return "FlashAttention MLA Sparse currently supports only FP16/BF16 KV cache"
    reason, config = flash_attn_mla_objection(request, facts), facts.config
    if reason is not None or config is None:
        return reason
    if config.decode_context_parallel_size > 1:
        return "FlashAttention MLA Sparse does not support DCP for now"
    if _index_topk(config) is None:
        return "FlashAttention MLA Sparse requires model with index_topk"
    return None


def _flashinfer_objection(name: str, request: BackendRequest, facts: Facts) -> str | None:
    known = _latent(facts)
    if known is None:
        return None
    config, latent = known
    if config.prefill_context_parallel_size > 1 and config.decode_context_parallel_size > 1:
        return (
            f"{name} does not support combined PCP+DCP; use FLASHMLA_SPARSE, which gathers each "
            "DCP KV shard before running the rank-local PCP prefill queries"
        )
    if request.kv_cache_dtype == "fp8_ds_mla":
        return f"{name} SM10 does not support fp8_ds_mla kv-cache dtype"
    return _flashinfer_dims(latent)


def _flashinfer_dims(latent: LatentDims) -> str | None:
    nope = latent.qk_nope_head_dim
    if latent.qk_rope_head_dim == 0:
        if nope != 256 or latent.kv_lora_rank != 512:
            return (
                "FlashInfer native no-rope MLA requires qk_nope_head_dim=256 and "
                f"kv_lora_rank=512, but got qk_nope_head_dim={nope}, "
                f"kv_lora_rank={latent.kv_lora_rank}"
            )
    elif nope not in (128, 192):
        return (
            f"FlashInfer MLA Sparse kernel requires qk_nope_head_dim in [128, 192], but got {nope}"
        )
    if latent.index_topk is None:
        return "FlashInfer MLA Sparse requires model with index_topk config"
    return None


def _flash_4_objection(request: BackendRequest, facts: Facts) -> str | None:
    if not flash.is_version_supported(4, facts):
        return f"FA4 unavailable: {_FA4_CARDS}"
    config = facts.config
    if config is not None:
        reason = _flash_4_dims(config) or _flash_4_heads(config)
        if reason is not None:
            return reason
    return _flashinfer_objection("FLASH_ATTN_MLA_SPARSE_FA4", request, facts)


_FA4_CARDS = "FA4 is only supported on devices with compute capability 9.x, 10.x, or 11.x"


def _flash_4_dims(config: CurrentConfig) -> str | None:
    latent, topk = config.latent, _index_topk(config)
    if latent is None or topk is None or topk % 128:
        return f"FA4 sparse MLA requires index_topk % 128 == 0, got {topk}"
    dims = (latent.kv_lora_rank, latent.qk_rope_head_dim)
    if dims != (512, 64):
        return f"FA4 sparse MLA requires (kv_lora_rank, qk_rope_head_dim) == (512, 64), got {dims}"
    return None


def _flash_4_heads(config: CurrentConfig) -> str | None:
    dcp, heads = config.decode_context_parallel_size, config.num_attention_heads
    counts = (8, 16, 32, 64) if dcp > 1 else (8, 16, 32, 64, 128)
    if heads * dcp in counts:
        return None
    return (
        f"FA4 sparse MLA requires {counts} gathered query heads, got num_heads={heads} * "
        f"dcp_size={dcp}"
    )


def _sm90_objection(request: BackendRequest, facts: Facts) -> str | None:
    if not request.use_sparse:
        return "FLASHINFER_MLA_SPARSE_SM90 requires sparse MLA"
    known = _latent(facts)
    if known is None:
        return None
    if known[1].kv_lora_rank != 512:
        return "FLASHINFER_MLA_SPARSE_SM90 requires kv_lora_rank=512"
    if known[1].qk_rope_head_dim not in (0, 64):
        return "FLASHINFER_MLA_SPARSE_SM90 requires qk_rope_head_dim in (0, 64)"
    return None


def _sm120_objection(request: BackendRequest, facts: Facts) -> str | None:
    if request.dtype is not DType.BFLOAT16:
        return "dtype not supported"
    if request.kv_cache_dtype not in ("auto", *FP8, "fp8_ds_mla"):
        return "kv_cache_dtype not supported"
    if facts.config is None:
        return None
    topk = _index_topk(facts.config)
    if topk is None:
        return "FLASHINFER_MLA_SPARSE_SM120 requires a model with index_topk config"
    if topk != 2048:
        return f"FLASHINFER_MLA_SPARSE_SM120 requires index_topk=2048; got {topk}"
    return None


def _flashmla_objection(request: BackendRequest, facts: Facts) -> str | None:
    kv_cache_dtype = request.kv_cache_dtype
    if request.head_size == 512:
        if facts.major != 9 or kv_cache_dtype not in (*PLAIN, "fp8_ds_mla"):
            major, minor = facts.capability
            return (
                "FLASHMLA_SPARSE supports head_size 512 only with bf16 or fp8_ds_mla kv-cache on "
                f"SM90 (NoPE), got kv_cache_dtype={kv_cache_dtype}, "
                f"capability=DeviceCapability(major={major}, minor={minor})"
            )
        known = _latent(facts)
        if known is not None and known[1].qk_rope_head_dim != 0:
            return "FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) models"
    if kv_cache_dtype == "nvfp4_ds_mla" and facts.major != 10:
        return (
            f"FLASHMLA_SPARSE only supports the {kv_cache_dtype} kv-cache dtype on SM100 "
            "(Blackwell)"
        )
    return None


def _flashmla_blocks(facts: Facts, spec: AttentionSpec | None) -> tuple[KernelBlockSize, ...]:
    quantized = spec is not None and spec.kv_quant_mode is not KVQuantMode.NONE
    return (64,) if quantized and facts.major == 10 else (MultipleOf(64),)


def _flashmla_stride(spec: AttentionSpec, facts: Facts) -> int | MultipleOf:
    if spec.kv_quant_mode is not KVQuantMode.NONE and facts.major != 10:
        return MultipleOf(_QUANTIZED_PAGE)
    return _rows(1, spec)


FLASH_ATTN_MLA_SPARSE = Backend(
    name="FLASH_ATTN_MLA_SPARSE",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN),
    kernel_block_sizes=blocks(MultipleOf(64)),
    capability=lambda capability: capability[0] == 9,
    mla=True,
    sparse=True,
    pcp=True,
    objection=_flash_objection,
    stride_alignment=lambda spec, _facts: _rows(1, spec),
)
FLASHMLA_SPARSE = Backend(
    name="FLASHMLA_SPARSE",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla"),
    head_size=head_sizes(576, 512),
    kernel_block_sizes=_flashmla_blocks,
    capability=lambda capability: capability[0] in (9, 10),
    mla=True,
    sparse=True,
    pcp=True,
    dcp=True,
    objection=_flashmla_objection,
    stride_alignment=_flashmla_stride,
)
FLASHINFER_MLA_SPARSE = Backend(
    name="FLASHINFER_MLA_SPARSE",
    dtypes=HALF,
    kv_cache_dtype=one_of(*PLAIN, *FP8),
    head_size=head_sizes(512, 576),
    kernel_block_sizes=blocks(MultipleOf(32)),
    capability=lambda capability: capability[0] == 10,
    mla=True,
    sparse=True,
    pcp=True,
    dcp=True,
    objection=lambda request, facts: _flashinfer_objection("FLASHINFER_MLA_SPARSE", request, facts),
    stride_alignment=lambda spec, _facts: _rows(32, spec),
)
FLASH_ATTN_MLA_SPARSE_FA4 = Backend(
    name="FLASH_ATTN_MLA_SPARSE_FA4",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", "bfloat16"),
    head_size=head_sizes(576),
    kernel_block_sizes=blocks(MultipleOf(64)),
    capability=lambda capability: capability[0] == 10,
    mla=True,
    sparse=True,
    pcp=True,
    dcp=True,
    objection=_flash_4_objection,
    stride_alignment=lambda spec, _facts: _rows(64, spec),
)
FLASHINFER_MLA_SPARSE_SM90 = Backend(
    name="FLASHINFER_MLA_SPARSE_SM90",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", "bfloat16", *FP8),
    head_size=head_sizes(512, 576),
    kernel_block_sizes=blocks(MultipleOf(64)),
    capability=lambda capability: capability[0] == 9,
    mla=True,
    sparse=True,
    pcp=True,
    objection=_sm90_objection,
    stride_alignment=lambda spec, _facts: _rows(1, spec),
)
FLASHINFER_MLA_SPARSE_SM120 = Backend(
    name="FLASHINFER_MLA_SPARSE_SM120",
    dtypes=_BFLOAT16,
    kv_cache_dtype=one_of("auto", *FP8, "fp8_ds_mla"),
    head_size=head_sizes(512, 576),
    kernel_block_sizes=blocks(MultipleOf(64)),
    capability=lambda capability: capability[0] == 12,
    mla=True,
    sparse=True,
    pcp=True,
    objection=_sm120_objection,
    stride_alignment=lambda spec, _facts: _rows(64, spec),
)
