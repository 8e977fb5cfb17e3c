"""CLIP, SigLIP and Pixtral encoders, and the LLaVA kin that choose among them.

Source: vLLM 0.33.0 ``models/{clip,siglip,pixtral,llava,llava_next,mistral3}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    frequencies,
    patches,
    pixels,
    text_hidden,
    two_linears,
)


def vision(config: HfConfig) -> HfConfig:
    return config.section("vision_config")


def block_of(part: HfConfig) -> Block:
    return Block(
        hidden_size=part.positive("hidden_size"),
        intermediate_size=part.positive("intermediate_size"),
    )


def siglip(
    site: Site, part: HfConfig, *, depth: int | None = None, position_ids: bool = True
) -> Tensors:
    """A SigLIP encoder; without its last norm when it stops early."""
    hidden, count = part.positive("hidden_size"), patches(part)
    layers = part.positive("num_hidden_layers")
    tensors = (
        *site.plain("patch_embedding", pixels(part), hidden, bias=True),
        *site.vector("position_embedding", count * hidden),
        *block_of(part).tensors(site, layers if depth is None else depth),
    )
    if depth is None or depth == layers:
        tensors += Norm.WITH_BIAS.at(site, hidden, "post_layernorm")
    return tensors + (site.vector("position_ids", count, INT64) if position_ids else ())


def clip(site: Site, part: HfConfig, *, depth: int | None = None) -> Tensors:
    """A CLIP encoder; without its last norm when it stops early."""
    hidden, count = part.positive("hidden_size"), patches(part) + 1
    layers = part.positive("num_hidden_layers")
    tensors = (
        *site.vector("class_embedding", hidden),
        *site.plain("patch_embedding", pixels(part), hidden),
        *site.vector("position_embedding", count * hidden),
        *Norm.WITH_BIAS.at(site, hidden, "pre_layernorm"),
        *block_of(part).tensors(site, layers if depth is None else depth),
        *site.vector("position_ids", count, INT64),
    )
    if depth is None or depth == layers:
        tensors += Norm.WITH_BIAS.at(site, hidden, "post_layernorm")
    return tensors


def pixtral(site: Site, part: HfConfig, *, depth: int | None = None) -> Tensors:
    """A Pixtral encoder."""
    hidden = part.positive("hidden_size")
    block = Block(
        hidden_size=hidden,
        intermediate_size=part.positive("intermediate_size"),
        norm=Norm.ONE,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        gated=True,
    )
    head_size = hidden // part.positive("num_attention_heads")
    layers = part.positive("num_hidden_layers") if depth is None else depth
    return (
        *site.plain("patch_conv", pixels(part), hidden),
        *Norm.ONE.at(site, hidden, "ln_pre"),
        *block.tensors(site, layers),
        *frequencies(site, head_size // 2),
    )


_BY_TYPE = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "pixtral": pixtral,
}


def feature_depth(config: HfConfig) -> int:
    """Layers up to the deepest one that the projector reads."""
    layers = vision(config).positive("num_hidden_layers")
    chosen = config.raw("vision_feature_layer")
    listed = chosen if isinstance(chosen, list | tuple) else [chosen]
    depths = [each for each in listed if isinstance(each, int)]
    if not depths or len(depths) != len(listed):
        raise config.wrong("vision_feature_layer", "an integer, or a list of them")
    return max(each if each >= 0 else layers + each + 1 for each in depths)


def _chosen(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    kind = part.text("model_type")
    if kind not in _BY_TYPE:
        raise unknown(f"vision encoder {kind!r} is not described", part.where("model_type"))
    return _BY_TYPE[kind](site, part, depth=feature_depth(config))


def llava(site: Site, config: HfConfig) -> Tensors:
    """LLaVA: an encoder and two linears that are shared out."""
    hidden, width = text_hidden(config), vision(config).positive("hidden_size")
    bias = config.optional_boolean("multimodal_projector_bias") is not False
    return _chosen(site, config) + two_linears(site, width, hidden, hidden, bias=bias)


def newline(site: Site, config: HfConfig) -> Tensors:
    """A learned line break: of no module, so every stage keeps it."""
    return site.vector("image_newline", text_hidden(config))


def llava_next_video(site: Site, config: HfConfig) -> Tensors:
    """The projector is whole on every rank."""
    hidden, width = text_hidden(config), vision(config).positive("hidden_size")
    bias = config.optional_boolean("multimodal_projector_bias") is not False
    projector = two_linears(site.replicated_site(), width, hidden, hidden, bias=bias)
    return _chosen(site, config) + projector


def llava_onevision(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    hidden, width = text_hidden(config), part.positive("hidden_size")
    bias = config.optional_boolean("multimodal_projector_bias") is not False
    projector = two_linears(site.replicated_site(), width, hidden, hidden, bias=bias)
    encoder = _chosen(site, config)
    if part.text("model_type") == "siglip_vision_model":
        # Its last norm is never built.
        encoder = tuple(t for t in encoder if not t.name.startswith("post_layernorm"))
    return encoder + projector


def mistral3(site: Site, config: HfConfig) -> Tensors:
    """Mistral Small: Pixtral, a patch merger, two linears."""
    hidden, width = text_hidden(config), vision(config).positive("hidden_size")
    merge = config.positive("spatial_merge_size")
    bias = config.optional_boolean("multimodal_projector_bias") is True
    return (
        *_chosen(site, config),
        *Norm.ONE.at(site, width, "projector.norm"),
        *site.replicated("merging_layer", width * merge * merge, width),
        *two_linears(site, width, hidden, hidden, bias=bias),
    )


def mistral(site: Site, config: HfConfig) -> Tensors:
    """Pixtral as Mistral's own files describe it: what stands before the adapter is optional."""
    part, hidden = vision(config), text_hidden(config)
    width = part.positive("hidden_size")
    merge = part.optional_integer("spatial_merge_size", minimum=1) or 1
    merges = part.optional_text("mm_projector_id") == "patch_merge"
    normed = part.optional_boolean("add_pre_mm_projector_layer_norm") is True
    bias = part.optional_boolean("adapter_bias") is not False
    encoder = tuple(t for t in pixtral(site, part) if t.name != "inv_freq")
    return (
        *encoder,
        *(Norm.ONE.at(site, width, "pre_mm_projector_norm") if normed else ()),
        *(site.replicated("merging_layer", width * merge * merge, width) if merges else ()),
        *site.replicated("w_in", width, hidden, bias=bias),
        *site.replicated("w_out", hidden, hidden, bias=bias),
    )


def gemma3(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    width = part.positive("hidden_size")
    return (
        *siglip(site, part),
        *site.plain("mm_input_projection", width, text_hidden(config)),
        *Norm.ONE.at(site, width, "mm_soft_emb_norm"),
    )


def paligemma(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    projected = part.positive("projection_dim")
    width = part.positive("hidden_size")
    return siglip(site, part) + site.plain("linear", width, projected, bias=True)


def cohere2(site: Site, config: HfConfig) -> Tensors:
    """SigLIP, then a gated projector over patches put together."""
    part = vision(config)
    factor = config.positive("downsample_factor")
    inner = config.positive("alignment_intermediate_size")
    width = part.positive("hidden_size") * factor * factor
    return (
        *siglip(site, part),
        *site.column("linear_1", width, (inner // 2, inner // 2), bias=True),
        *site.row("linear_2", inner // 2, text_hidden(config), bias=True),
    )


def idefics3(site: Site, config: HfConfig) -> Tensors:
    part = vision(config)
    scale = config.positive("scale_factor")
    width = part.positive("hidden_size") * scale * scale
    encoder = siglip(site, part, position_ids=False)
    return encoder + site.plain("modality_projection.proj", width, text_hidden(config))
