"""Image and text encoders side by side, and late-interaction models.

Source: vLLM 0.33.0 ``models/{clip,siglip,colmodernvbert}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.heads import head_site
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.clip_like import clip, paligemma, siglip, vision
from kvplan_cli.memory.weights.towers.encoder import text_hidden

_RETRIEVAL_SIZE = 128


def clip_model(site: Site, config: HfConfig) -> Tensors:
    part, shared = vision(config), config.positive("projection_dim")
    return (
        *clip(site, part),
        *site.plain("visual_projection", part.positive("hidden_size"), shared),
    )


def clip_text_projection(site: Site, config: HfConfig) -> Tensors:
    """The linear of its texts."""
    shared = config.positive("projection_dim")
    return site.unquantized().plain("text_projection", text_hidden(config), shared)


def siglip_model(site: Site, config: HfConfig) -> Tensors:
    """SigLIP with the pooling head of its images."""
    return siglip(site, vision(config)) + siglip_head(site, vision(config))


def siglip_head(site: Site, part: HfConfig) -> Tensors:
    """What pools an image's patches: attention to them, and a feed-forward."""
    width, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    return (
        *site.vector("head.probe", width),
        *site.vector("head.in_proj_weight", 3 * width * width),
        *site.vector("head.in_proj_bias", 3 * width),
        *site.plain("head.out_proj", width, width, bias=True),
        *Norm.WITH_BIAS.at(site, width, "head.layernorm"),
        *site.column("head.mlp.fc1", width, inner, bias=True),
        *site.row("head.mlp.fc2", inner, width, bias=True),
    )


def siglip_text_head(site: Site, config: HfConfig) -> Tensors:
    """The linear of its texts."""
    text = config.section("text_config")
    outputs = text.positive("projection_size")
    return site.unquantized().plain(
        "text_model.head", size(text, "hidden_size"), outputs, bias=True
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


_LATE_KEYS = ("embedding_dim", "embed_dim", "dims", "dim", "projection_dim", "colbert_dim")


def _late(site: Site, config: HfConfig, *, bias: bool) -> Tensors:
    """The linear of late interaction; where no key names its width, the checkpoint brings it.

    Source: vLLM 0.33.0 ``models/{colpali,colqwen3,colqwen3_5}.py``.
    """
    for key in _LATE_KEYS:
        width = config.optional_integer(key, minimum=1)
        if width is not None:
            place = head_site(site, config)
            return place.plain("custom_text_proj", text_hidden(config), width, bias=bias)
    return ()


def late_projection(site: Site, config: HfConfig) -> Tensors:
    return _late(site, config, bias=False)


def biased_late_projection(site: Site, config: HfConfig) -> Tensors:
    return _late(site, config, bias=True)


def colpali(site: Site, config: HfConfig) -> Tensors:
    return paligemma(site, config.section("vlm_config"))


def ultra_vbert(site: Site, config: HfConfig) -> Tensors:
    part, hidden = vision(config), text_hidden(config)
    merged = part.positive("hidden_size") * config.positive("pixel_shuffle_factor") ** 2
    normed = config.optional_boolean("connector_norm") is True
    return (
        *siglip(site, part),
        *site.plain("connector.modality_projection", merged, hidden),
        *(Norm.ONE.at(site, hidden, "connector.norm") if normed else ()),
    )
