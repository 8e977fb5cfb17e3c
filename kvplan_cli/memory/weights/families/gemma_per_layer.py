"""Gemma 3n and 4: embeddings for each layer, shared caches, two head sizes.

Source: vLLM 0.33.0 ``models/{gemma3n,gemma4}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import QueryOnlySharing
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.gemma import TIED, normalizer, two_rotations
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.layers import LayerFacts, given, size, together
from kvplan_cli.memory.weights.moe import routed
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.quantization import ExpertShape
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.text import text_config

_SHARING: Final = QueryOnlySharing(
    qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM
)
WIDE: Final = Gated(intermediate=lambda config: 2 * config.positive("intermediate_size"))
_MOE: Final = given("enable_moe_block")


def _per_layer_width(config: HfConfig) -> int:
    return config.optional_integer("hidden_size_per_layer_input", minimum=0) or 0


def _per_layer_gate(facts: LayerFacts) -> Tensors:
    width, hidden, site = _per_layer_width(facts.config), facts.hidden_size, facts.site
    if not width:
        return ()
    return (
        *site.replicated("per_layer_input_gate", hidden, width),
        *site.replicated("per_layer_projection", width, hidden),
        *site.vector("post_per_layer_input_norm", hidden),
    )


def per_layer_embedding(
    site: Site, config: HfConfig, scalars: int, *, projected: Site | None = None
) -> Tensors:
    """A second table, with a part for each layer. projected: where its projection stands, if not
    shared out as the table is."""
    width = _per_layer_width(config)
    if not width:
        return ()
    total = width * config.positive("num_hidden_layers")
    rows = config.positive("vocab_size_per_layer_input")
    return (
        *site.embedding("embed_tokens_per_layer", rows, total),
        *(projected or site).column(
            "per_layer_model_projection", size(config, "hidden_size"), total
        ),
        *site.vector("per_layer_projection_norm", width),
        *site.vector("scale", 1) * scalars,
    )


def per_layer_inputs(site: Site, config: HfConfig) -> Tensors:
    """A step's embeddings for each layer, which the multimodal class looks up beforehand.

    Source: vLLM 0.33.0 ``models/{gemma3n_mm,gemma4_mm,gemma4_unified}.py:per_layer_embeddings``.
    """
    text = text_config(config)
    total = _per_layer_width(text) * text.positive("num_hidden_layers")
    return site.vector("per_layer_embeddings", site.max_num_batched_tokens * total)


def _gemma4_extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return per_layer_embedding(site, config, 3) + normalizer(site, config, stage)


def _gemma4_mlp(facts: LayerFacts) -> Tensors:
    """Layers that use another's cache may have a feed-forward of twice the width."""
    shared = facts.attention.kv_sharing_target is not None
    wide = shared and given("use_double_wide_mlp")(facts.config)
    return (WIDE if wide else GATED)(facts)


def gemma4_experts(facts: LayerFacts) -> Tensors:
    """Experts beside the dense feed-forward, with norms of their own."""
    config, site, hidden = facts.config, facts.site, facts.hidden_size
    if not _MOE(config):
        return ()
    experts = config.positive("num_experts")
    shape = ExpertShape(experts, hidden, config.positive("moe_intermediate_size"))
    return (
        *site.vector("router.scale", hidden),
        *site.vector("router.per_expert_scale", experts),
        *site.plain("router.proj", hidden, experts),
        *routed(site.at("experts"), shape),
        *site.vector("norm", hidden) * 3,
    )


def _router_root(facts: LayerFacts) -> Tensors:
    return facts.site.vector("router.root_size", 1) if _MOE(facts.config) else ()


def _layer_scalar(facts: LayerFacts) -> Tensors:
    return facts.site.vector("layer_scalar", 1)


def _altup(facts: LayerFacts) -> Tensors:
    """Gemma 3n's alternating updates and its low-rank residual."""
    config, site, hidden = facts.config, facts.site, facts.hidden_size
    inputs, rank = config.positive("altup_num_inputs"), config.positive("laurel_rank")
    router = site.replicated("altup.modality_router", hidden, inputs)
    return (
        Tensor("altup.correct_output_scale", hidden, FLOAT32),
        *site.replicated("altup.correction_coefs", inputs, inputs),
        *site.replicated("altup.prediction_coefs", inputs, inputs * inputs),
        *router,
        *site.vector("altup.router_norm", hidden),
        # In the dtype of the router's weight, quantized or not.
        Tensor("altup.router_input_scale", 1, router[0].itemsize),
        *site.column("laurel.linear_left", hidden, rank),
        *site.row("laurel.linear_right", rank, hidden),
        *site.vector("laurel.post_laurel_norm", hidden),
    )


def _gemma3n_extras(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden, inputs = size(config, "hidden_size"), config.positive("altup_num_inputs")
    projections = site.column("altup_projection", hidden, hidden) * (2 * (inputs - 1))
    scalar = site.vector("embed_scale", 1)
    return projections + scalar + per_layer_embedding(site, config, 3)


def _gemma3n_mlp(facts: LayerFacts) -> Tensors:
    """The inner width may be listed layer by layer."""
    listed = facts.config.raw("intermediate_size")
    if not isinstance(listed, list | tuple):
        return GATED(facts)
    return Gated(intermediate=lambda config: int(listed[facts.index]))(facts)


GEMMA4: Final = Decoder(
    attention=_SHARING,
    feed_forward=together(_gemma4_mlp, gemma4_experts, _router_root),
    norms=layer_norms(4),
    beside=together(_per_layer_gate, _layer_scalar),
    rope=RopeTables(by_type=True),
    tied=TIED,
    everywhere=True,
    extras=_gemma4_extras,
)


def _self_conditioning(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Block diffusion feeds its last guess back through a feed-forward of its own."""
    hidden, inner = size(config, "hidden_size"), config.positive("intermediate_size")
    return (
        *_gemma4_extras(site, config, stage),
        *site.vector("self_conditioning.pre_norm", hidden),
        *site.replicated("self_conditioning.gate_proj", hidden, inner),
        *site.replicated("self_conditioning.up_proj", hidden, inner),
        *site.replicated("self_conditioning.down_proj", inner, hidden),
    )


DIFFUSION_GEMMA: Final = replace(GEMMA4, extras=_self_conditioning)
PER_LAYER_GEMMAS: Final[Mapping[str, Decoder]] = {
    "Gemma3nForCausalLM": Decoder(
        attention=_SHARING,
        feed_forward=_gemma3n_mlp,
        norms=layer_norms(4),
        beside=together(_altup, _per_layer_gate),
        rope=RopeTables(by_type=True, adjust=two_rotations),
        tied=TIED,
        everywhere=True,
        extras=_gemma3n_extras,
    ),
    "Gemma4ForCausalLM": GEMMA4,
}
