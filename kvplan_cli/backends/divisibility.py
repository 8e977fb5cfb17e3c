"""Tensor parallel sizes that a model's dimensions do not allow.

The engine finds out while it builds the model, embeddings before layers.
Source: vLLM 0.33.0 ``vllm/distributed/utils.py:ensure_divisibility``,
``vllm/model_executor/layers/vocab_parallel_embedding.py`` and ``linear.py``.
"""

from __future__ import annotations

from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.library import LIBRARY_CLASSES
from kvplan_cli.models.shape import AttentionKind, AttentionLayer
from kvplan_cli.units import round_up

# Rows that the engine pads a vocabulary to.
VOCAB_PADDING = 64

# Architectures that leave the check of KV heads to the fused projection, which says what
# does not divide; the others assert without words.
_WORDED = frozenset(
    {
        "ArceeForCausalLM",
        "CwmForCausalLM",
        "FlexOlmoForCausalLM",
        "GPTBigCodeForCausalLM",
        "GPTNeoXForCausalLM",
        "GlmForCausalLM",
        "GptOssForCausalLM",
        "HrmTextForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "Jais2ForCausalLM",
        "Kolibri1ForCausalLM",
        "MellumForCausalLM",
        "Olmo2ForCausalLM",
        "Olmo3ForCausalLM",
        "OlmoForCausalLM",
        "PhiForCausalLM",
        "SeedOssForCausalLM",
        "SmolLM3ForCausalLM",
        "StableLmForCausalLM",
        "Starcoder2ForCausalLM",
        "VaultGemmaForCausalLM",
    }
)


_PANGU = frozenset(
    {
        "OpenPanguVLForConditionalGeneration",
        "PanguEmbeddedForCausalLM",
        "PanguProMoEV2ForCausalLM",
    }
)


def check_vocabulary(vocab_size: int, tensor_parallel_size: int) -> None:
    """Refuse a vocabulary whose padded rows cannot be shared out."""
    padded = round_up(vocab_size, VOCAB_PADDING)
    if padded % tensor_parallel_size:
        raise model_refusal(
            "AssertionError", f"{padded} is not divisible by {tensor_parallel_size}"
        )


def check_heads(architecture: str, layer: AttentionLayer, tensor_parallel_size: int) -> None:
    """Refuse KV heads that can be neither shared out nor replicated evenly."""
    heads = layer.num_kv_heads
    if layer.kind is AttentionKind.STATIC_SINK and heads < tensor_parallel_size:
        raise model_refusal(
            "ValueError",
            f"Number of KV heads {heads} is less than TP size {tensor_parallel_size}, KV heads "
            "replication is not support yet.",
        )
    if architecture == "Param2MoEForCausalLM" and heads % tensor_parallel_size:
        raise model_refusal(
            "AssertionError",
            f"num_key_value_heads ({heads}) must be divisible by tensor-parallel world size "
            f"({tensor_parallel_size}).",
        )
    if architecture == "MuseSparkForConditionalGeneration" and heads % tensor_parallel_size:
        raise model_refusal(
            "AssertionError",
            "KV-head padding is not supported for the fused QKV+O-gate projection: "
            f"total_num_kv_heads={heads}, tp_size={tensor_parallel_size}.",
            f"sizes that work divide its {heads} KV heads",
        )
    larger, smaller = max(heads, tensor_parallel_size), min(heads, tensor_parallel_size)
    if larger % smaller == 0:
        return
    if architecture in _PANGU:
        raise _pangu_refusal(heads, tensor_parallel_size)
    worded = f"{larger} is not divisible by {smaller}"
    raise model_refusal(
        "AssertionError",
        worded if architecture in _WORDED | LIBRARY_CLASSES else "",
        f"its {heads} KV heads can be neither shared out over {tensor_parallel_size} ranks nor "
        f"copied evenly; sizes that work: {_even_sizes(heads)}",
    )


def _even_sizes(heads: int) -> str:
    divisors = [size for size in range(1, heads + 1) if heads % size == 0]
    return f"{', '.join(map(str, divisors))} and multiples of {heads}"


def _pangu_refusal(heads: int, tensor_parallel_size: int) -> EngineRefusalError:
    if heads > tensor_parallel_size:
        words = (
            f"Number of KV heads is greater than TP size, but total_num_kv_heads {heads} is not "
            f"divisible by tp_size {tensor_parallel_size}."
        )
    else:
        words = (
            f"Number of KV heads is less than TP size, but tp_size {tensor_parallel_size} is not "
            f"divisible by total_num_kv_heads {heads}."
        )
    return model_refusal("ValueError", words)


def rank_heads(layer: AttentionLayer, tensor_parallel_size: int) -> tuple[int, int]:
    """Attention heads and KV heads of one rank, refused where they do not group."""
    heads = layer.num_attention_heads // tensor_parallel_size
    kv_heads = max(1, layer.num_kv_heads // tensor_parallel_size)
    if heads % kv_heads:
        raise model_refusal(
            "AssertionError",
            f"num_heads ({heads}) is not divisible by num_kv_heads ({kv_heads})",
        )
    return heads, kv_heads
