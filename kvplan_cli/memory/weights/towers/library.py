"""Encoders as the Transformers library's classes build them.

Only attention with three projections of its own is shared out over the ranks.

Source: vLLM 0.33.0 ``models/transformers/multimodal.py`` and transformers 5.20.2 ``models``.
"""

from __future__ import annotations

from functools import partial

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.model import Tower
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers import clip_like, others, qwen
from kvplan_cli.memory.weights.towers.encoder import frequencies, pixels, text_hidden, two_linears


def sharing(tower: Tower, *shared: str) -> Tower:
    """The engine's own tower, of which the ranks share only the modules of these names."""

    def tensors(site: Site, config: HfConfig) -> Tensors:
        pairs = zip(tower(site, config), tower(site.replicated_site(), config), strict=True)
        return tuple(part if part.name.startswith(shared) else whole for part, whole in pairs)

    return tensors


def sharing_attention(tower: Tower) -> Tower:
    """The same, where queries, keys and values are projections of their own."""
    return sharing(tower, "qkv", "out_proj")


def whole(tower: Tower) -> Tower:
    """The engine's own tower, of which the ranks share nothing."""
    return lambda site, config: tower(site.replicated_site(), config)


def pooling_head(site: Site, part: HfConfig) -> Tensors:
    """SigLIP's head, which attends by one learned query."""
    if part.optional_boolean("vision_use_head") is False:
        return ()
    width, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    return (
        *site.vector("probe", width),
        *site.plain("attention.in_proj", width, 3 * width, bias=True),
        *site.plain("attention.out_proj", width, width, bias=True),
        *Norm.WITH_BIAS.at(site, width, "layernorm"),
        *site.plain("mlp.fc1", width, inner, bias=True),
        *site.plain("mlp.fc2", inner, width, bias=True),
    )


def with_pooling_head(tower: Tower) -> Tower:
    """A tower around SigLIP, with the head that the engine's own class leaves out."""

    def tensors(site: Site, config: HfConfig) -> Tensors:
        head = pooling_head(site, clip_like.vision(config))
        return sharing_attention(tower)(site, config) + head

    return tensors


def _all_layers(site: Site, config: HfConfig) -> Tensors:
    """CLIP or SigLIP with every layer, however few are read."""
    part = clip_like.vision(config)
    kind = part.text("model_type")
    if kind == "clip_vision_model":
        return clip_like.clip(site, part)
    if kind == "siglip_vision_model":
        return clip_like.siglip(site, part) + pooling_head(site, part)
    raise unknown(f"vision encoder {kind!r} is not described", part.where("model_type"))


def llava(site: Site, config: HfConfig) -> Tensors:
    """LLaVA and its kin: an encoder and two linears."""
    whole_site, hidden = site.replicated_site(), text_hidden(config)
    width = clip_like.vision(config).positive("hidden_size")
    bias = config.optional_boolean("multimodal_projector_bias") is not False
    projector = two_linears(whole_site, width, hidden, hidden, bias=bias)
    return sharing_attention(_all_layers)(site, config) + projector


def _turning(tower: Tower, width_key: str) -> Tower:
    """Qwen's encoders turn by frequencies, not by a table."""

    def tensors(site: Site, config: HfConfig) -> Tensors:
        part = clip_like.vision(config)
        head_size = part.positive(width_key) // part.positive("num_heads")
        kept = tuple(t for t in tower(site, config) if not t.name.startswith("rotary_pos_emb"))
        return kept + frequencies(site, head_size // 4)

    return tensors


qwen2_vl = _turning(whole(qwen.qwen2_vl), "embed_dim")
qwen2_5_vl = _turning(sharing(qwen.qwen2_5_vl, "fc1", "fc2"), "hidden_size")
qwen3_vl = _turning(whole(qwen.qwen3_vl), "hidden_size")
internvl = sharing_attention(partial(others.internvl, whole_attention=False))


_LARGEST_IMAGE = 2048


def hunyuan_vl(site: Site, config: HfConfig) -> Tensors:
    """Layers like CLIP's, positions for the largest image, convolutions that merge patches.

    The ranks share none of it.
    """
    part, hidden = clip_like.vision(config), text_hidden(config)
    width, merge = part.positive("hidden_size"), part.positive("spatial_merge_size")
    largest = part.optional_integer("max_image_size", minimum=1) or _LARGEST_IMAGE
    side = largest // part.positive("patch_size")
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", (side * side + 1) * width),
        *clip_like.block_of(part).tensors(
            site.replicated_site(), part.positive("num_hidden_layers")
        ),
        *site.plain("proj_conv", width * merge * merge, 2 * width, bias=True),
        *site.plain("proj_out", 2 * width, 4 * width, bias=True),
        *site.plain("mlp", 4 * width, hidden, bias=True),
        *site.vector("image_newline", 4 * width),
        *site.vector("image_marks", 3 * hidden),
        *Norm.ONE.at(site, width, "before_rms"),
        *Norm.ONE.at(site, hidden, "after_rms"),
    )
