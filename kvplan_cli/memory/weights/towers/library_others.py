"""Encoders of the Transformers library that differ from the engine's own, or that it lacks.

Source: vLLM 0.33.0 ``models/transformers/{base,multimodal}.py`` and transformers 5.20.2
``models/<type>/modeling_<type>.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.memory.weights.towers import audio, glm, others
from kvplan_cli.memory.weights.towers.clip_like import siglip, vision
from kvplan_cli.memory.weights.towers.encoder import (
    Block,
    frequencies,
    patches,
    pixels,
    text_hidden,
)
from kvplan_cli.memory.weights.towers.library import pooling_head, sharing, sharing_attention

_CONV: Final = 9


def aya_vision(site: Site, config: HfConfig) -> Tensors:
    """SigLIP with its head, and a gated projector over patches put together."""
    part, hidden = vision(config), text_hidden(config)
    factor = config.positive("downsample_factor")
    width = part.positive("hidden_size") * factor * factor
    inner = config.optional_integer("alignment_intermediate_size", minimum=2) or hidden
    encoder = sharing_attention(lambda place, whole: siglip(place, vision(whole)))
    return (
        *encoder(site, config),
        *pooling_head(site, part),
        *Norm.WITH_BIAS.at(site, width, "projector.layernorm"),
        *site.replicated("projector.linear_1", width, inner, bias=True),
        *site.replicated("projector.linear_2", inner // 2, hidden, bias=True),
    )


_GLM4V: Final = sharing(glm.glm4v, "fc1", "fc2", "merger.gate_up_proj", "merger.down_proj")


def glm4v(site: Site, config: HfConfig) -> Tensors:
    """Only the feed-forward layers are shared out; positions turn by frequencies."""
    part = vision(config)
    head_size = part.positive("hidden_size") // part.positive("num_heads")
    tensors = _GLM4V(site, config)
    kept = tuple(t for t in tensors if not t.name.startswith(("rotary_pos_emb", "position_ids")))
    return kept + frequencies(site, head_size // 4)


# The engine's own tower, but the layers' feed-forward is whole.
llama4: Final = sharing(
    others.llama4, "qkv", "out_proj", "patch_embedding", "vision_adapter", "multi_modal_projector"
)


def llama4_inner_head(site: Site, config: HfConfig) -> Tensors:
    """The head of the class inside, which stands unused beside the engine's own."""
    text = config.section("text_config")
    return site.column("language_model.lm_head", text_hidden(config), text.positive("vocab_size"))


def voxtral(site: Site, config: HfConfig) -> Tensors:
    """Whisper's encoder, and two linears over frames put together; all of it whole."""
    part, hidden = config.section("audio_config"), text_hidden(config)
    return (
        *audio.whisper(site, part),
        *site.replicated("linear_1", part.positive("intermediate_size"), hidden),
        *site.replicated("linear_2", hidden, hidden),
    )


def got_ocr2(site: Site, config: HfConfig) -> Tensors:
    """SAM's encoder with relative positions, a neck, and two convolutions; all of it whole."""
    part, hidden, place = vision(config), text_hidden(config), site.replicated_site()
    width, channels = part.positive("hidden_size"), part.positive("output_channels")
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("mlp_dim"),
        qkv_bias=part.optional_boolean("qkv_bias") is not False,
    )
    absolute = part.optional_boolean("use_abs_pos") is not False
    layers = part.positive("num_hidden_layers")
    return (
        *(site.vector("pos_embed", patches(part) * width) if absolute else ()),
        *site.plain("patch_embed.projection", pixels(part), width, bias=True),
        *block.tensors(place, layers),
        *(t for index in range(layers) for t in _relative_positions(site, part, index)),
        *site.plain("neck.conv1", width, channels),
        *site.plain("neck.conv2", channels * _CONV, channels),
        *Norm.WITH_BIAS.at(site, channels, "neck.layer_norm") * 2,
        *site.plain("conv_upsampler1", channels * _CONV, 2 * channels),
        *site.plain("conv_upsampler2", 2 * channels * _CONV, hidden),
        *site.plain("multimodal_projector", hidden, hidden, bias=True),
    )


def _relative_positions(site: Site, part: HfConfig, index: int) -> Tensors:
    """Two tables as long as the layer's window, or as the image."""
    if part.optional_boolean("use_rel_pos") is False:
        return ()
    everywhere = index in part.list("global_attn_indexes")
    window = part.optional_integer("window_size", minimum=0) or 0
    image = part.positive("image_size") // part.positive("patch_size")
    side = image if everywhere or not window else window
    head_size = part.positive("hidden_size") // part.positive("num_attention_heads")
    return site.vector("attn.rel_pos", (2 * side - 1) * head_size) * 2


def ovis2(site: Site, config: HfConfig) -> Tensors:
    """An encoder whose head chooses visual words, and the table of these words."""
    part = vision(config)
    width, count = part.positive("hidden_size"), patches(part)
    stride, words = part.positive("hidden_stride"), part.positive("vocab_size")
    chosen = words - part.positive("num_visual_indicator_tokens")
    biased = part.optional_boolean("qkv_bias") is True
    block = Block(
        hidden_size=width,
        intermediate_size=part.positive("intermediate_size"),
        norm=Norm.ONE,
        qkv_bias=biased,
        output_bias=biased,
        mlp_bias=part.optional_boolean("mlp_bias") is True,
        gated=True,
    )
    return (
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *site.vector("position_embedding", count * width),
        *site.vector("position_ids", count, INT64),
        *block.tensors(site, part.positive("num_hidden_layers")),
        *site.vector("rms_norm", width) * 2,
        *site.replicated("head_linear", width * stride * stride, chosen),
        *Norm.WITH_BIAS.at(site, chosen, "head_norm"),
        *site.embedding("visual_embeddings_table", words, config.positive("hidden_size")),
    )
