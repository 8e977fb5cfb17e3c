"""NVIDIA's RADIO vision encoder and Parakeet audio encoder, as Nemotron Nano VL and kin have them.

Source: vLLM 0.33.0 ``models/{nano_nemotron_vl,nemotron_parse3_5,radio,parakeet}.py``,
transformers 5.20.2 ``models/parakeet``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.memory.weights.towers.conformer import subsampling
from kvplan_cli.memory.weights.towers.encoder import text_hidden
from kvplan_cli.memory.weights.towers.intern_vit import layer
from kvplan_cli.models.text import text_config

# Width, layers, heads and inner width by the name of the encoder.
# Source: vLLM 0.33.0 ``transformers_utils/configs/radio.py:VIT_TIMM_DIM_BY_NAME``.
_SIZES: Final[Mapping[str, tuple[int, int, int, int]]] = {
    "vit_small_patch16_224": (384, 12, 6, 1536),
    "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096),
    "vit_huge_patch16_224": (1280, 32, 16, 5120),
    "vit_so400m_patch16_224": (1152, 27, 16, 4304),
}
_KEYS: Final = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_FLAGS: Final = {"qkv_bias": True, "qk_normalization": False}
_PATCH_SIZE, _LARGEST, _COLOURS = 16, 2048, 3


def _radio_part(vision: HfConfig) -> HfConfig:
    """The encoder's config with the sizes that its name stands for."""
    part = vision.section("args")
    name = part.text("model")
    if name not in _SIZES:
        raise unknown(f"vision encoder {name!r} is not described", part.where("model"))
    for key, value in zip(_KEYS, _SIZES[name], strict=True):
        part = part.with_value(key, value)
    for key, flag in _FLAGS.items():
        part = part if part.has(key) else part.with_value(key, flag)
    return part


def _tokens(part: HfConfig) -> int:
    """Class tokens, and registers that fill them up to a multiple."""
    names = {teacher["name"] for teacher in part.optional_list("teachers") or ()}
    count = len(names) if part.optional_boolean("cls_token_per_teacher") else 1
    multiple = part.optional_integer("register_multiple", minimum=1)
    return count if multiple is None else count + multiple - count % multiple


def radio(site: Site, config: HfConfig) -> Tensors:
    return _radio(site, config.section("vision_config"))


def _radio(site: Site, vision: HfConfig) -> Tensors:
    part = _radio_part(vision)
    width = part.positive("hidden_size")
    patch = vision.optional_integer("patch_size", minimum=1) or _PATCH_SIZE
    largest = part.optional_integer("cpe_max_size", minimum=1) or _LARGEST
    frames = vision.optional_integer("video_temporal_patch_size", minimum=1) or 1
    pixels = patch * patch * _COLOURS
    teachers = part.optional_list("teachers") or ()
    summaries = sum(teacher.get("use_summary", True) for teacher in teachers)
    return (
        *site.plain("patch_generator.embedder", pixels, width),
        *(site.plain("patch_generator.video_embedder", frames * pixels, width) * (frames > 1)),
        *site.vector("patch_generator.pos_embed", round(largest / patch) ** 2 * width),
        *site.vector("patch_generator.cls_token", _tokens(part) * width),
        *layer(site, part) * part.positive("num_hidden_layers"),
        *(site.vector("summary_idxs", summaries, INT64) if summaries else ()),
    )


_NECK_KERNEL: Final = 4
_SPATIAL, _SUMMARY, _NECK = 1280, 3840, 1024


def radio_with_neck(site: Site, config: HfConfig) -> Tensors:
    """RADIO, and what brings its patches and its summary to the decoder's width."""
    width = config.section("decoder").positive("d_model")
    spatial = config.optional_integer("vision_spatial_dim", minimum=1) or _SPATIAL
    summary = config.optional_integer("vision_summary_dim", minimum=1) or _SUMMARY
    return _radio(site, config.section("encoder")) + _neck(site, spatial, summary, width)


def radio_with_fixed_neck(site: Site, config: HfConfig) -> Tensors:
    """The same of earlier releases, whose sizes the config does not tell."""
    encoder = HfConfig({"args": config.section("encoder").section("args").values}, config.origin)
    return _radio(site, encoder) + _neck(site, _SPATIAL, _SUMMARY, _NECK)


def _neck(site: Site, spatial: int, summary: int, width: int) -> Tensors:
    return (
        *site.plain("conv1", spatial, width, bias=True),
        *site.plain("conv2", _NECK_KERNEL * width, width),
        *site.column("sum_proj", summary, width, bias=True),
        *Norm.WITH_BIAS.at(site, width) * 3,
    )


def _subsampling(site: Site, part: HfConfig) -> Tensors:
    layers = part.positive("subsampling_factor").bit_length() - 1
    return subsampling(
        site,
        kernel=part.positive("subsampling_conv_kernel_size") ** 2,
        channels=part.positive("subsampling_conv_channels"),
        layers=layers,
        bands=part.positive("num_mel_bins") // part.positive(_STRIDE) ** layers,
        width=part.positive("hidden_size"),
    )


_STRIDE: Final = "subsampling_conv_stride"


def _parakeet_layer(site: Site, part: HfConfig) -> Tensors:
    """Two feed-forwards around attention by distance and a convolution."""
    width, inner = part.positive("hidden_size"), part.positive("intermediate_size")
    bias = part.optional_boolean("convolution_bias") is not False
    feed_forward = site.plain("linear1", width, inner) + site.plain("linear2", inner, width)
    return (
        *feed_forward * 2,
        *site.plain("self_attn.proj", width, width) * 5,
        *site.vector("self_attn.bias", width) * 2,
        *site.plain("conv.pointwise_conv1", width, 2 * width, bias=bias),
        *site.plain("conv.depthwise_conv", part.positive("conv_kernel_size"), width, bias=bias),
        *site.plain("conv.pointwise_conv2", width, width, bias=bias),
        *site.vector("conv.norm", width) * 4,
        *site.vector("conv.norm.num_batches_tracked", 1, INT64),
        *Norm.WITH_BIAS.at(site, width) * 5,
    )


def parakeet(site: Site, config: HfConfig) -> Tensors:
    """The audio encoder and its projector, where the config has one."""
    part = config.optional_section("sound_config")
    if part is None:
        return ()
    width, inner = part.positive("hidden_size"), part.positive("projection_hidden_size")
    bias = part.boolean("projection_bias")
    return (
        *_subsampling(site, part),
        *site.vector("encode_positions.inv_freq", (width + 1) // 2),
        *_parakeet_layer(site, part) * part.positive("num_hidden_layers"),
        *Norm.ONE.at(site, width, "projection.norm"),
        *site.plain("projection.linear1", width, inner, bias=bias),
        *site.plain("projection.linear2", inner, text_hidden(config), bias=bias),
    )


def vision_projector(site: Site, config: HfConfig) -> Tensors:
    """A norm and two linears; one more norm before where the model predicts further tokens."""
    ratio, width = config.optional_number("downsample_ratio"), config.positive("vit_hidden_size")
    if not ratio:
        raise config.wrong("downsample_ratio", "a number above zero")
    merged, inner = width * round(1 / ratio) ** 2, config.positive("projector_hidden_size")
    predicts = text_config(config).optional_integer("num_nextn_predict_layers", minimum=0)
    return (
        *(Norm.WITH_BIAS.at(site, width, "vision_final_layernorm") if predicts else ()),
        *Norm.ONE.at(site, merged, "mlp1.0"),
        *site.plain("mlp1.1", merged, inner),
        *site.plain("mlp1.3", inner, text_hidden(config)),
    )
