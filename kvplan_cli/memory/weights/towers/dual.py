"""Image and text encoders side by side, and late-interaction models.

Source: vLLM 0.33.0 ``models/{clip,siglip,colmodernvbert}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.clip_like import clip, siglip, vision
from kvplan_cli.memory.weights.towers.encoder import text_hidden

_RETRIEVAL_SIZE = 128


def clip_model(site: Site, config: HfConfig) -> Tensors:
    part, shared = vision(config), config.positive("projection_dim")
    return (
        *clip(site, part),
        *site.plain("text_projection", text_hidden(config), shared),
        *site.plain("visual_projection", part.positive("hidden_size"), shared),
    )


def siglip_model(site: Site, config: HfConfig) -> Tensors:
    """SigLIP with the pooling head of its images and the linear one of its texts."""
    part = vision(config)
    width, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    text = config.section("text_config")
    return (
        *siglip(site, part),
        *site.vector("head.probe", width),
        *site.vector("head.in_proj_weight", 3 * width * width),
        *site.vector("head.in_proj_bias", 3 * width),
        *site.plain("head.out_proj", width, width, bias=True),
        *Norm.WITH_BIAS.at(site, width, "head.layernorm"),
        *site.column("head.mlp.fc1", width, inner, bias=True),
        *site.row("head.mlp.fc2", inner, width, bias=True),
        *site.plain(
            "text_model.head",
            size(text, "hidden_size"),
            text.positive("projection_size"),
            bias=True,
        ),
    )


def modern_vbert(site: Site, config: HfConfig) -> Tensors:
    part, hidden = vision(config), text_hidden(config)
    factor = config.positive("pixel_shuffle_factor")
    merged = part.positive("hidden_size") * factor * factor
    outputs = config.optional_integer("embedding_dim", minimum=1) or _RETRIEVAL_SIZE
    return (
        *siglip(site, part),
        *site.plain("connector.proj", merged, hidden),
        *site.vector("custom_text_proj.weight", hidden * outputs, FLOAT32),
        *site.vector("custom_text_proj.bias", outputs, FLOAT32),
    )
