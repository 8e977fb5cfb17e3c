"""What a backend's implementation refuses when the engine builds it for a layer.

These checks come after selection, which does not know of ALiBi, soft caps or KV sharing.
Source: vLLM 0.33.0 ``__init__`` of the implementations in
``vllm/v1/attention/backends/{flash_attn,triton_attn,flex_attention,flashinfer}.py``.
"""

from __future__ import annotations

from kvplan_cli.backends import flash_attention as flash
from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.quant_modes import is_quantized
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.request import AttentionType
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import AttentionLayer
from kvplan_cli.settings.model_hooks import BACKEND_CLASSES
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A layer and what the engine hands its implementation."""

    layer: AttentionLayer
    kv_cache_dtype: str
    attn_type: AttentionType


_PARTS = {
    "FLASH_ATTN": ("flash",),
    "FLASH_ATTN_DIFFKV": ("flash",),
    "TRITON_ATTN": ("triton",),
    "TRITON_ATTN_DIFFKV": ("triton", "triton_diffkv"),
    "TRITON_FLASH_ATTN": ("triton", "flash"),
    "TRITON_FLASHINFER": ("triton", "flashinfer"),
    "FLASHINFER": ("flashinfer",),
    "FLEX_ATTENTION": ("flex",),
    "TURBOQUANT": ("turboquant",),
}


def check_implementation(backend: Backend, built: Built, facts: Facts) -> None:
    """Raise the refusal of the backend's implementation, if it has one."""
    if built.layer.alibi_sqrt and "triton" not in _PARTS.get(backend.name, ()):
        raise model_refusal(
            "ValueError",
            f"use_alibi_sqrt is not supported by backend {backend.name}.",
            way_out="use --attention-backend TRITON_ATTN",
        )
    for part in _PARTS.get(backend.name, ()):
        match part:
            case "flash":
                _check_flash(built, facts)
            case "triton":
                _check_triton(built, facts)
            case "triton_diffkv":
                _check_triton_diff_kv(built)
            case "flex":
                _check_flex(built)
            case "flashinfer":
                _check_flashinfer(built)
            case "turboquant":
                _check_turboquant(built)


def _check_flash(built: Built, facts: Facts) -> None:
    layer = built.layer
    query = flash.VersionQuery(
        alibi=layer.alibi,
        head_size=layer.head_size,
        head_size_v=layer.head_size,
        has_sinks=layer.has_sink,
        soft_cap=layer.logits_soft_cap,
        takes_hd256_kernel=True,
    )
    if is_quantized(built.kv_cache_dtype) and not flash.supports_kv_cache_dtype(
        facts, built.kv_cache_dtype, query
    ):
        raise model_refusal(
            "NotImplementedError",
            f"FlashAttention does not support {built.kv_cache_dtype} kv-cache on this device.",
            way_out="use --kv-cache-dtype auto",
        )
    if layer.has_sink and not flash.supports_sinks(facts):
        raise model_refusal("AssertionError", "Sinks are only supported in FlashAttention 3")


def _check_triton(built: Built, facts: Facts) -> None:
    major, minor = facts.capability
    place = f"{facts.device_name} (compute capability {major}.{minor})"
    plain = "bfloat16" if facts.capability >= (8, 0) else "float16"
    if built.kv_cache_dtype.startswith("fp8") and facts.capability < (8, 9):
        raise model_refusal(
            "ValueError",
            f"FP8 KV cache is not supported by the Triton attention backend on {place}; "
            f"native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {plain}.",
        )
    if built.kv_cache_dtype == "bfloat16" and facts.capability < (8, 0):
        raise model_refusal(
            "ValueError",
            f"bfloat16 KV cache is not supported on {place}; bfloat16 requires SM80+. "
            "Re-run with --kv-cache-dtype float16.",
        )


def _check_triton_diff_kv(built: Built) -> None:
    kv_cache_dtype = built.kv_cache_dtype
    if is_quantized(kv_cache_dtype) and kv_cache_dtype not in ("fp8", "fp8_e4m3"):
        raise model_refusal(
            "NotImplementedError",
            "TritonAttentionDiffKVBackend supports only fp8/fp8_e4m3 quantized KV cache "
            f"(got kv_cache_dtype={kv_cache_dtype!r}).",
        )


def _check_flex(built: Built) -> None:
    layer = built.layer
    objections = (
        (layer.alibi, "FlexAttention does not support alibi slopes yet."),
        (layer.logits_soft_cap, "FlexAttention does not support logits soft cap yet."),
        (
            layer.kv_sharing_target is not None,
            "FlexAttention does not support kv sharing yet.",
        ),
        (
            is_quantized(built.kv_cache_dtype),
            "FlexAttention does not support quantized kv-cache. Yet",
        ),
    )
    for applies, words in objections:
        if applies:
            raise model_refusal("NotImplementedError", words)


def _check_flashinfer(built: Built) -> None:
    if built.attn_type is not AttentionType.DECODER:
        raise model_refusal(
            "NotImplementedError",
            "Encoder self-attention and encoder/decoder cross-attention are not implemented "
            "for FlashInferImpl",
        )


def _check_turboquant(built: Built) -> None:
    """A wrapped layer's backend is selected before the layers left out of packing are."""
    if not built.kv_cache_dtype.startswith("turboquant_"):
        raise model_refusal(
            "ValueError",
            f"Unknown TurboQuant cache dtype: {built.kv_cache_dtype!r}. Valid presets: "
            "turboquant_k8v4, turboquant_4bit_nc, turboquant_k3v4_nc, turboquant_3bit_nc",
        )


def check_pooling(layer: AttentionLayer, backend: Backend) -> None:
    """Raise the refusal of a layer with several states a token for all but two backends.

    Source: vLLM 0.33.0 ``models/whisper_causal.py``,
    ``create_whisper_attention_backend_with_block_pooling``.
    """
    if layer.states_per_token > 1 and backend.name not in ("FLASH_ATTN", "TRITON_ATTN"):
        raise model_refusal(
            "NotImplementedError",
            f"<class '{BACKEND_CLASSES.get(backend.name, backend.name)}'> is not yet supported."
            "Contributions to support more backends are much appreciated.",
            way_out="use --attention-backend TRITON_ATTN",
        )


_CHOOSES_REGIONS = ((9, 0), (10, 0), (10, 3))


def check_regions(
    layer: AttentionLayer, kv_cache_dtype: str, facts: Facts, settings: ResolvedSettings
) -> None:
    """Raise the refusal of attention that chooses regions: few cards, head groups and dtypes.

    Source: vLLM 0.33.0 ``vllm/models/step5/nvidia/model.py:Step5Attention`` and
    ``sparse_attention.py:_validate_step5_dsa_attention_contract``.
    """
    if facts.capability not in _CHOOSES_REGIONS:
        major, minor = facts.capability
        raise model_refusal(
            "NotImplementedError",
            "Step5 DSA requires SM90, SM100 or SM103; got "
            f"DeviceCapability(major={major}, minor={minor}).",
        )
    if layer.head_size not in (128, 192):
        raise model_refusal(
            "ValueError",
            f"Step5 DSA supports attention head dimensions 128 or 192, got {layer.head_size}.",
        )
    heads, tensor_parallel_size = layer.num_attention_heads, settings.tensor_parallel_size
    of_group = heads // tensor_parallel_size // max(1, layer.num_kv_heads // tensor_parallel_size)
    if of_group not in (4, 8, 16):
        raise model_refusal(
            "ValueError",
            "Step5 DSA kernels require 4, 8, or 16 local query heads per KV group, got "
            f"{of_group} (num_heads={heads}, tp_size={tensor_parallel_size}).",
        )
    dtype, fp8 = settings.dtype, kv_cache_dtype in ("fp8", "fp8_e4m3")
    objections = (
        (
            is_quantized(kv_cache_dtype) and not fp8,
            "Step5 DSA supports E4M3 FP8 KV cache only",
        ),
        (kv_cache_dtype == "float16", "Step5 DSA does not support a float16 KV cache"),
        (
            dtype is not DType.BFLOAT16,
            f"Step5 DSA kernels require bfloat16 activations, got torch.{dtype.torch_name}.",
        ),
        (
            layer.head_size != 192,
            f"Step5 DSA kernels require head_size 192, got {layer.head_size}.",
        ),
    )
    for applies, words in objections:
        if applies:
            raise model_refusal("NotImplementedError", words)


def check_own_cache(layer: AttentionLayer, dtype: DType, tensor_parallel_size: int) -> None:
    """Raise the refusal of a layer class of the model's own, if it has one.

    Source: vLLM 0.33.0 ``vllm/models/inkling/nvidia/sconv_swa_attn.py:InklingConvState``.
    """
    if layer.own_cache is None or layer.own_cache.backend != "INKLING_SCONV_SWA":
        return
    if tensor_parallel_size > layer.num_kv_heads:
        raise model_refusal(
            "AssertionError",
            f"sconv SWA cache supports tp_size <= num_kv_heads ({layer.num_kv_heads}), "
            f"got {tensor_parallel_size}",
        )
    if dtype is not DType.BFLOAT16:
        raise model_refusal(
            "AssertionError",
            f"sconv SWA cache supports bfloat16 only, got torch.{dtype.torch_name}",
        )
