"""InternVL's own encoder, in the models that name it InternVLChatModel and in their kin.

Source: vLLM 0.33.0 ``models/{intern_vit,internvl,qianfan_ocr}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.clip_like import vision
from kvplan_cli.memory.weights.towers.encoder import patches, pixels, text_hidden
from kvplan_cli.models.text import text_config


def _flag(part: HfConfig, *keys: str) -> bool:
    """The first of the keys that is there; the engine gives one the other's value."""
    for key in keys:
        value = part.optional_boolean(key)
        if value is not None:
            return value
    return part.boolean(keys[0])


def _norm(part: HfConfig) -> Norm:
    return Norm.ONE if part.optional_text("norm_type") == "rms_norm" else Norm.WITH_BIAS


def layer(site: Site, part: HfConfig, dummy_heads: int = 0) -> Tensors:
    """Attention is whole where the ranks do not divide its heads."""
    width, heads = part.positive("hidden_size"), part.positive("num_attention_heads")
    head_size, inner = width // heads, part.positive("intermediate_size")
    all_heads = heads + dummy_heads
    wide = all_heads * head_size
    place = site if all_heads % site.tensor_parallel_size == 0 else site.replicated_site()
    normed = _flag(part, "qk_normalization", "use_qk_norm")
    return (
        *place.column("qkv", width, (wide,) * 3, bias=_flag(part, "qkv_bias", "attention_bias")),
        *place.row("proj", wide, width, bias=True),
        *(site.vector("qk_norm", wide) * 2 if normed else ()),
        *site.column("fc1", width, inner, bias=True),
        *site.row("fc2", inner, width, bias=True),
        *_norm(part).at(site, width) * 2,
        *site.vector("ls", width) * 2,
    )


def encoder(
    site: Site, part: HfConfig, *, depth: int | None = None, dummy_heads: int = 0
) -> Tensors:
    """Patches, positions and ``depth`` layers, all where none is given."""
    width, count = part.positive("hidden_size"), patches(part) + 1
    layers = part.positive("num_hidden_layers") if depth is None else depth
    return (
        *site.vector("class_embedding", width),
        *site.vector("position_embedding", count * width),
        *site.plain("patch_embedding", pixels(part), width, bias=True),
        *layer(site, part, dummy_heads) * layers,
    )


def _depth(config: HfConfig) -> int:
    """Layers up to the one that ``select_layer`` names."""
    layers, chosen = vision(config).positive("num_hidden_layers"), config.raw("select_layer")
    if not isinstance(chosen, int):
        raise config.wrong("select_layer", "an integer")
    return layers + chosen + 1 if chosen < 0 else chosen + 1


def merged(config: HfConfig, width: int) -> int:
    """Width of the patches that are put together, each of ``width``."""
    ratio = config.optional_number("downsample_ratio")
    if not ratio:
        raise config.wrong("downsample_ratio", "a number above zero")
    return width * int(1 / ratio) ** 2


def _merged(config: HfConfig) -> int:
    return merged(config, vision(config).positive("hidden_size"))


def projector(site: Site, config: HfConfig) -> Tensors:
    """A norm and two linears over patches put together."""
    hidden, width = text_hidden(config), _merged(config)
    return (
        *Norm.WITH_BIAS.at(site, width, "mlp1.0"),
        *site.plain("mlp1.1", width, hidden, bias=True),
        *site.plain("mlp1.3", hidden, hidden, bias=True),
    )


def nvlm(site: Site, config: HfConfig) -> Tensors:
    """NVLM's projector is as wide as its language model's feed-forward; seven idle heads."""
    hidden, width = text_hidden(config), _merged(config)
    inner = text_config(config).positive("intermediate_size")
    return (
        *encoder(site, vision(config), depth=_depth(config), dummy_heads=_NVLM_DUMMY_HEADS),
        *Norm.WITH_BIAS.at(site, width, "mlp1.0"),
        *site.plain("mlp1.1", width, inner),
        *site.plain("mlp1.3", inner, hidden),
    )


_NVLM_DUMMY_HEADS = 7


def intern_vl_chat(site: Site, config: HfConfig) -> Tensors:
    return encoder(site, vision(config), depth=_depth(config)) + projector(site, config)


def qianfan(site: Site, config: HfConfig) -> Tensors:
    """The same with the names of ``transformers``."""
    layers, chosen = vision(config).positive("num_hidden_layers"), config.raw("select_layer")
    depth = layers if chosen is None else _depth(config)
    return encoder(site, vision(config), depth=depth) + projector(site, config)
