"""DeepSeek's vision encoders: of V4, whose sizes stand beside the language model's, and of OCR.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v4/common/vl_model.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers import clip_like
from kvplan_cli.memory.weights.towers.encoder import Block, frequencies
from kvplan_cli.models.deepseek_v41 import as_its_class_has_it

_COLOURS = 3
_MARKS = 4
_V41_HEADS, _V41_MARKS = 16, 3


def v4(site: Site, config: HfConfig) -> Tensors:
    """Gated blocks without biases in the feed-forward."""
    width, inner = config.positive("vision_dim"), config.positive("vision_inter_dim")
    hidden, ratio = config.positive("hidden_size"), config.positive("vision_downsample_ratio")
    pixels = config.positive("vision_patch_size") ** 2 * _COLOURS
    block = (
        *Norm.ONE.at(site, width) * 2,
        *site.column("attn.wqkv", width, (width, width, width), bias=True),
        *site.row("attn.wo", width, width, bias=True),
        *site.column("mlp.w1", width, (inner, inner)),
        *site.row("mlp.w2", inner, width),
    )
    return (
        *site.plain("patch_embed.proj", pixels, width, bias=True),
        *block * config.positive("vision_n_layers"),
        *Norm.ONE.at(site, width, "norm"),
        *site.column("aligner.w1", width * ratio * ratio, hidden, bias=True),
        *site.row("aligner.w2", hidden, hidden, bias=True),
    )


# Keys of V4.1's vision section, and what V4's config calls them.
_V4_NAMES: Final[Mapping[str, str]] = {
    "num_hidden_layers": "vision_n_layers",
    "hidden_size": "vision_dim",
    "intermediate_size": "vision_inter_dim",
    "patch_size": "vision_patch_size",
    "downsample_ratio": "vision_downsample_ratio",
}
_V41_DEFAULTS: Final[Mapping[str, int]] = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "patch_size": 14,
    "downsample_ratio": 3,
}


def v41(site: Site, config: HfConfig) -> Tensors:
    """V4's encoder, from a section of its own; whole where the ranks do not divide its heads."""
    section = config.section("vision_config")
    values = {**_V41_DEFAULTS, **section.values}
    named = {name: values[key] for key, name in _V4_NAMES.items() if key in values}
    heads = section.optional_integer("num_attention_heads", minimum=1) or _V41_HEADS
    place = site if heads % site.tensor_parallel_size == 0 else site.replicated_site()
    return v4(place, HfConfig({**as_its_class_has_it(config).values, **named}, config.origin))


def v41_marks(site: Site, config: HfConfig) -> Tensors:
    """Rows around an image, and between its lines."""
    hidden = as_its_class_has_it(config).positive("hidden_size")
    return site.vector("image_mark", hidden, FLOAT32) * _V41_MARKS


def image_marks(site: Site, config: HfConfig) -> Tensors:
    """Rows that stand around an image: of no module, so every stage has them."""
    return site.vector("image_mark", config.positive("hidden_size"), FLOAT32) * _MARKS


# The encoders of DeepSeek-OCR have these sizes, whatever the config says.
# Source: vLLM 0.33.0 ``models/{deepseek_ocr,deepencoder}.py``.
_SAM_WIDTH, _SAM_LAYERS, _SAM_PATCHES, _SAM_PIXELS = 768, 12, 64, 16 * 16 * 3
_SAM_HEAD, _SAM_WINDOW, _SAM_EVERYWHERE = 64, 14, (2, 5, 8, 11)
_NECK, _MIDDLE, _LAST, _SQUARE = 256, 512, 1024, 9
_CLIP: Final = HfConfig(
    {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "image_size": 224,
        "patch_size": 14,
    }
)


def _sam_layer(site: Site, index: int) -> Tensors:
    """Attention by distance, within a window in most layers."""
    width = _SAM_WIDTH
    side = _SAM_PATCHES if index in _SAM_EVERYWHERE else _SAM_WINDOW
    return (
        *Norm.WITH_BIAS.at(site, width) * 2,
        *site.plain("attn.qkv", width, 3 * width, bias=True),
        *site.plain("attn.proj", width, width, bias=True),
        *site.vector("attn.rel_pos", (2 * side - 1) * _SAM_HEAD) * 2,
        *site.plain("mlp.lin1", width, 4 * width, bias=True),
        *site.plain("mlp.lin2", 4 * width, width, bias=True),
    )


def _sam(site: Site, outputs: int) -> Tensors:
    layers = (_sam_layer(site, index) for index in range(_SAM_LAYERS))
    return (
        *site.plain("patch_embed.proj", _SAM_PIXELS, _SAM_WIDTH, bias=True),
        *site.vector("pos_embed", _SAM_PATCHES**2 * _SAM_WIDTH),
        *(tensor for layer in layers for tensor in layer),
        *site.plain("neck.0", _SAM_WIDTH, _NECK),
        *Norm.WITH_BIAS.at(site, _NECK, "neck.norm") * 2,
        *site.plain("neck.2", _SQUARE * _NECK, _NECK),
        *site.plain("net_2", _SQUARE * _NECK, _MIDDLE),
        *site.plain("net_3", _SQUARE * _MIDDLE, outputs),
    )


def _projector(site: Site, config: HfConfig) -> Tensors:
    part = config.section("projector_config")
    kind, hidden = part.text("projector_type"), part.positive("n_embed")
    if kind != "linear":
        raise unknown(f"projector {kind!r} is not described", part.where("projector_type"))
    return site.plain("projector.layers", part.positive("input_dim"), hidden, bias=True)


def ocr(site: Site, config: HfConfig) -> Tensors:
    """SAM, then CLIP without its last norm, and a linear; two learned marks."""
    clip = clip_like.clip(site, _CLIP)
    return (
        *_sam(site, _LAST),
        *(tensor for tensor in clip if not tensor.name.startswith("post_layernorm")),
        *_projector(site, config),
    )


# The second encoder of DeepSeek-OCR 2 is Qwen2 without words, of these sizes.
# Source: vLLM 0.33.0 ``models/{deepseek_ocr2,deepencoder2}.py``.
_QWEN_WIDTH, _QWEN_LAYERS, _QWEN_HEAD, _QWEN_QUERIES = 896, 24, 64, 144 + 256
_QWEN: Final = Block(
    hidden_size=_QWEN_WIDTH,
    intermediate_size=4864,
    kv_size=2 * _QWEN_HEAD,
    norm=Norm.ONE,
    output_bias=False,
    mlp_bias=False,
    gated=True,
)


def ocr2(site: Site, config: HfConfig) -> Tensors:
    """SAM, then Qwen2's layers, whole on every rank, with learned queries; a linear."""
    return (
        *_sam(site, _QWEN_WIDTH),
        *_QWEN.tensors(site.replicated_site(), _QWEN_LAYERS),
        *Norm.ONE.at(site, _QWEN_WIDTH, "norm"),
        *frequencies(site, _QWEN_HEAD // 2),
        *site.vector("query", _QWEN_QUERIES * _QWEN_WIDTH),
        *_projector(site, config),
    )


def ocr2_mark(site: Site, config: HfConfig) -> Tensors:
    """A separator of views: of no module, so every stage has it."""
    return site.vector("mark", config.section("projector_config").positive("n_embed"))


def ocr_marks(site: Site, config: HfConfig) -> Tensors:
    """A line break and a separator of views: of no module, so every stage has them."""
    return site.vector("mark", config.section("projector_config").positive("n_embed")) * 2
