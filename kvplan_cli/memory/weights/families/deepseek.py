"""DeepSeek V2 to V3.2 and the models built on its decoder.

Source: vLLM 0.33.0 ``models/{deepseek_v2,deepseek_ocr,glm4_moe_lite,AXK1}.py``,
``vllm/models/deepseek_v32``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import LLAMA_ATTENTION
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.mixtures import SMALL, by_mlp_type, times
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.latent import LatentAttention, LatentRope
from kvplan_cli.memory.weights.layers import LayerFacts, always, sized, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.ranks import sharded, with_tokens, with_tokens_unstaged
from kvplan_cli.memory.weights.rope import TABLES
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import CacheLayer


def sparse_layer(config: HfConfig, index: int) -> bool:
    """Behind the first dense layers, every ``moe_layer_freq``-th layer."""
    if not config.has("n_routed_experts"):
        return False
    step = config.optional_integer("moe_layer_freq", minimum=1) or 1
    return index >= config.integer("first_k_dense_replace") and index % step == 0


def _corrects(config: HfConfig) -> bool:
    return config.optional_text("topk_method") == "noaux_tc"


EXPERTS: Final = Experts(
    count=sized("n_routed_experts"),
    shared=times("n_shared_experts", SMALL),
    whole_shared=with_tokens,
    correction=_corrects,
    tensorrt=lambda config: config.optional_text("scoring_func") == "sigmoid",
)
_SIGMOID: Final = replace(EXPERTS, correction=always, tensorrt=always)
_SIGMOID_FP32: Final = replace(_SIGMOID, router_fp32=always)
DEEPSEEK: Final = Decoder(
    attention=LatentAttention(),
    feed_forward=where(sparse_layer, EXPERTS, GATED),
    rope=LatentRope(indexers=True),
)
_SPARSE_ATTENTION: Final = replace(
    DEEPSEEK,
    feed_forward=where(sparse_layer, EXPERTS, Gated(whole=with_tokens_unstaged)),
    rope=LatentRope(fp32=True, indexers=True),
)
_GLM_LITE: Final = replace(
    DEEPSEEK,
    feed_forward=where(
        sparse_layer,
        replace(_SIGMOID_FP32, whole_shared=sharded),
        GATED,
    ),
)


_LATENT_SIZES: Final = ("qk_nope_head_dim", "qk_rope_head_dim")


def _plain_attention(facts: LayerFacts) -> Tensors:
    """Queries, keys and values of one matrix each, where heads have no latent sizes."""
    config = facts.config
    for key in _LATENT_SIZES:
        if config.optional_integer(key):
            raise unknown(
                "latent attention behind DeepSeek-OCR is not described", config.where(key)
            )
    return LLAMA_ATTENTION(facts)


def _has_latents(config: HfConfig) -> bool:
    return any(config.optional_integer(key) for key in _LATENT_SIZES)


def _of_either_size(facts: LayerFacts) -> Tensors:
    return DEEPSEEK.attention(facts) if _has_latents(facts.config) else LLAMA_ATTENTION(facts)


def _table_of_either_size(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    return (DEEPSEEK.rope if _has_latents(config) else TABLES)(config, layers, itemsize)


# The smallest of DeepSeek-VL2's language models has plain attention.
VL2: Final = replace(DEEPSEEK, attention=_of_either_size, rope=_table_of_either_size)
OCR: Final = Decoder(attention=_plain_attention, feed_forward=DEEPSEEK.feed_forward)

DEEPSEEKS: Final[Mapping[str, Decoder]] = {
    "AXK1ForCausalLM": replace(
        DEEPSEEK,
        feed_forward=where(by_mlp_type, _SIGMOID, GATED),
        norms=layer_norms(3),
    ),
    "DeepseekV2ForCausalLM": DEEPSEEK,
    "DeepseekV3ForCausalLM": DEEPSEEK,
    "DeepseekV32ForCausalLM": _SPARSE_ATTENTION,
    "Glm4MoeLiteForCausalLM": _GLM_LITE,
    "GlmMoeDsaForCausalLM": _SPARSE_ATTENTION,
}
