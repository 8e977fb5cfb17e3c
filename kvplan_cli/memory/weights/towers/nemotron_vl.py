"""Towers of Llama Nemotron's models of images: the generating one, and those that pool.

Source: vLLM 0.33.0 ``models/nemotron_vl.py``, transformers 5.20.2 ``models/siglip``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.clip_like import siglip, vision
from kvplan_cli.memory.weights.towers.dual import siglip_head
from kvplan_cli.memory.weights.towers.encoder import text_hidden
from kvplan_cli.memory.weights.towers.intern_vit import merged, projector

_COLOURS = 3


def nano(site: Site, config: HfConfig) -> Tensors:
    """The library's own encoder, whole on every rank, and a projector."""
    part, kind = vision(config), vision(config).text("model_type")
    if kind != "siglip_vision_model":
        raise unknown(f"vision encoder {kind!r} is not described", part.where("model_type"))
    whole, inner = site.replicated_site(), config.positive("projector_hidden_size")
    width = merged(config, config.positive("vit_hidden_size"))
    pools = part.optional_boolean("vision_use_head") is not False
    return (
        *siglip(whole, part),
        *(siglip_head(whole, part) if pools else ()),
        *Norm.WITH_BIAS.at(site, width, "mlp1.0"),
        *site.plain("mlp1.1", width, inner, bias=True),
        *site.plain("mlp1.3", inner, text_hidden(config), bias=True),
    )


def embedding(site: Site, config: HfConfig) -> Tensors:
    """SigLIP, shared out, and a projector."""
    return siglip(site, vision(config)) + projector(site, config)


def input_norm(site: Site, config: HfConfig) -> Tensors:
    """What brings an image's colours to their scale on the card."""
    return site.vector("input_norm", _COLOURS, FLOAT32) * 2
