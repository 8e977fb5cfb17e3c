"""Muse Spark: gated attention, gated residuals, experts in a narrower width; images and sound.

Source: vLLM 0.33.0 ``vllm/models/muse_spark``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.llama_like import output_gate
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import LayerFacts, always, sized, together, where
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.memory.weights.towers.clip_like import block_of, vision
from kvplan_cli.memory.weights.towers.encoder import pixels, text_hidden, two_linears
from kvplan_cli.models.shape import AttentionLayer, CacheLayer

_LARGEST_IMAGE: Final = 4096


def _sparse(config: HfConfig, index: int) -> bool:
    return bool(config.list("mlp_layer_types")[index] == "sparse")


def _expert_norms(facts: LayerFacts) -> Tensors:
    """Before and after the experts, in their own width."""
    return facts.site.vector("expert_norm", facts.config.positive("moe_hidden_size")) * 2


def _residual_gates(facts: LayerFacts) -> Tensors:
    """One for each of the two branches."""
    return facts.site.vector("gate", facts.hidden_size) * 2


def _tables(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """One in fp32 for each layer that turns."""
    thetas, rows = config.list("layer_rope_theta"), config.positive("max_position_embeddings")
    return tuple(
        Tensor("rotary_emb.cos_sin_cache", rows * layer.head_size, FLOAT32)
        for layer in layers
        if isinstance(layer, AttentionLayer) and thetas[layer.decoder_layer]
    )


_MUSE_SPARK: Final = Decoder(
    attention=Attention(beside=output_gate),
    feed_forward=where(
        _sparse,
        together(
            Experts(
                count=sized("num_local_experts"),
                router_fp32=always,
                correction=always,
                latent=sized("moe_hidden_size"),
            ),
            _expert_norms,
        ),
        GATED,
    ),
    norms=layer_norms(3),
    beside=_residual_gates,
    rope=_tables,
)


def _eyes(site: Site, config: HfConfig) -> Tensors:
    part, hidden = vision(config), text_hidden(config)
    width, merge = part.positive("hidden_size"), part.positive("merge_size")
    height, across = part.positive("pos_emb_height"), part.positive("pos_emb_width")
    side = max(math.isqrt(_LARGEST_IMAGE * merge * merge) + 1, height, across)
    turned = width // part.positive("num_attention_heads")
    inner = config.positive("projector_hidden_size")
    return (
        *site.vector("precomputed_freqs_cis", side * side * turned, FLOAT32),
        *site.column("conv1_linear", pixels(part) * part.positive("patch_temporal"), width),
        *site.vector("positional_embedding_vlm", height * across * width),
        *Norm.WITH_BIAS.at(site, width, "ln") * 2,
        *block_of(part).tensors(site, part.positive("num_hidden_layers")),
        *two_linears(site, width * merge * merge, inner, inner, bias=False),
        *site.row("vision_projection", inner, hidden),
    )


def _ears(site: Site, config: HfConfig) -> Tensors:
    """Stages that put samples together, then convolve and feed forward; whole on every rank."""
    part = config.section("audio_config")
    kernel, outputs = part.positive("conv_kernel_size"), part.positive("out_hidden_size")
    ratio = part.optional_number("mlp_ratio") or part.positive("mlp_ratio")
    sizes = zip(
        part.list("patch_sizes"), part.list("hidden_sizes"), part.list("depths"), strict=True
    )
    tensors: Tensors = ()
    before = 1
    for patch, width, depth in sizes:
        inner = int(width * ratio)
        layer = (
            *site.plain("conv", kernel, width, bias=True),
            *Norm.ONE.at(site, width),
            *site.plain("linear1", width, inner, bias=True),
            *site.plain("linear2", inner, width, bias=True),
        )
        tensors += site.plain("linear", before * patch, width, bias=True)
        tensors += Norm.ONE.at(site, width) + layer * depth
        before = width
    return (
        *tensors,
        *Norm.ONE.at(site, before, "norm"),
        *site.plain("o_proj", before, outputs, bias=True),
        *Norm.ONE.at(site, outputs, "dual_norm"),
    )


MUSE_SPARK: Final = Wrapper(decoder=_MUSE_SPARK, towers=(_eyes, _ears))
