"""Phi-4 multimodal's encoders of images and sound.

Source: vLLM 0.33.0 ``models/{phi4mm,phi4mm_audio,phi4mm_utils}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.clip_like import siglip
from kvplan_cli.memory.weights.towers.conformer import halved, subsampling

# The engine's own, whatever the checkpoint says. Source: ``phi4mm.py:get_navit_vision_model``.
_SIGLIP: Final = HfConfig(
    {
        "hidden_size": 1152,
        "image_size": 448,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "patch_size": 14,
    }
)
_WIDTH, _LAYERS, _READ = 1152, 27, -2


def _projection(site: Site, inputs: int, hidden: int) -> Tensors:
    return (
        *site.plain("projection.0", inputs, hidden, bias=True),
        *site.plain("projection.2", hidden, hidden, bias=True),
    )


def images(site: Site, config: HfConfig) -> Tensors:
    """SigLIP up to the layer that is read, without its last norm; separators and two linears."""
    chosen = config.optional_section("img_processor")
    read = None if chosen is None else chosen.optional_integer("layer_idx")
    read = _READ if read is None else read
    depth = read + 1 + (_LAYERS if read < 0 else 0)
    encoder = siglip(site, _SIGLIP, depth=depth, position_ids=False)
    return (
        *(t for t in encoder if not t.name.startswith("post_layernorm")),
        *site.vector("separators", 2 * _WIDTH),
        *_projection(site, _WIDTH, size(config, "hidden_size")),
    )


# Of an absent key. Source: vLLM 0.33.0 ``models/phi4mm_audio.py:ConformerEncoder``.
_DEFAULTS: Final[Mapping[str, int]] = {
    "attention_dim": 256,
    "attention_heads": 4,
    "linear_units": 2048,
    "num_blocks": 6,
    "kernel_size": 3,
    "ext_pw_kernel_size": 1,
    "time_reduction": 4,
}
# Forms of the encoder that no checkpoint has: the convolutions are as wide as the attention.
_FORM: Final[Mapping[str, object]] = {
    "batch_norm": False,
    "linear_glu_in_convm": False,
    "depthwise_multiplier": 1,
    "attention_group_size": 1,
    "bias_in_glu": True,
}
_DISTANCE = 1000
_CHANNELS = 256
_SQUARE = 3 * 3


def _known(part: HfConfig, key: str, expected: object) -> None:
    if part.has(key) and part.raw(key) != expected:
        raise unknown(
            f"Phi-4's audio encoder with {key} {part.raw(key)!r} is not described",
            f"{part.origin}: {part.where(key)}",
        )


def _setting(part: HfConfig, key: str) -> int:
    value = part.optional_integer(key, minimum=1)
    return _DEFAULTS[key] if value is None else value


def _encoder_part(config: HfConfig) -> HfConfig:
    part = config.section("audio_processor").section("config")
    for key, expected in _FORM.items():
        _known(part, key, expected)
    width = _setting(part, "attention_dim")
    for key in ("ext_pw_out_channel", "depthwise_seperable_out_channel"):
        if part.integer(key) != width:
            _known(part, key, width)
    return part


def _audio_layer(site: Site, part: HfConfig) -> Tensors:
    """Two gated feed-forwards around attention and a gated convolution."""
    width, inner = _setting(part, "attention_dim"), _setting(part, "linear_units")
    outer, kernel = _setting(part, "ext_pw_kernel_size"), _setting(part, "kernel_size")
    norm = Norm.WITH_BIAS.at(site, width)
    feed_forward = (
        *norm,
        *site.plain("net.0", width, 2 * inner, bias=True),
        *site.plain("net.2", inner, width, bias=True),
    )
    return (
        *feed_forward * 2,
        *norm * 2,
        *site.plain("self_attn.linear", width, width, bias=True) * 4,
        *norm,
        *site.vector("conv.glu.bias", width) * 2,
        *site.plain("conv.glu.ext_pw_conv_1d", width * outer, 2 * width, bias=True),
        *site.plain("conv.ext_pw_conv_1d", width * outer, width, bias=True),
        *site.plain("conv.dw_conv", kernel, width, bias=True),
        *site.plain("conv.pw_conv", width, width, bias=True),
    )


def _convolutions(site: Site, part: HfConfig) -> Tensors:
    """What halves time and bands until time is reduced enough."""
    layers = _setting(part, "time_reduction").bit_length() - 1
    settings = part.optional_section("nemo_conv_settings") or HfConfig({})
    _known(settings, "subsampling", "dw_striding")
    _known(settings, "is_causal", False)
    return subsampling(
        site,
        kernel=_SQUARE,
        channels=settings.optional_integer("conv_channels", minimum=1) or _CHANNELS,
        layers=layers,
        bands=halved(part.positive("input_size"), layers),
        width=_setting(part, "attention_dim"),
    )


def _distances(site: Site, part: HfConfig) -> Tensors:
    """A learned bias of each head for each distance, to both sides unless these are alike."""
    settings = part.section("relative_attention_bias_args")
    longest = settings.optional_integer("t5_bias_max_distance", minimum=1) or _DISTANCE
    sides = 1 if settings.optional_boolean("t5_bias_symmetric") else 2
    return site.vector("bias_values", sides * longest * _setting(part, "attention_heads"))


def sound(site: Site, config: HfConfig) -> Tensors:
    """A conformer, and two linears each for speech alone and for speech about images."""
    part = _encoder_part(config)
    layer = config.section("embd_layer").section("audio_embd_layer")
    _known(layer, "use_qformer", False)
    _known(layer, "use_conv_downsample", False)
    if layer.optional_text("projection_cls") != "mlp":
        raise unknown(
            "Phi-4's audio projection of another kind than mlp is not described",
            f"{layer.origin}: {layer.where('projection_cls')}",
        )
    width, hidden = _setting(part, "attention_dim"), size(config, "hidden_size")
    merged = width * (layer.optional_integer("downsample_rate", minimum=1) or 1)
    means = part.section("encoder_embedding_config").positive("input_size")
    return (
        *_convolutions(site, part),
        *_distances(site, part),
        *site.vector("encoder_embedding", means) * 2,
        *_audio_layer(site, part) * _setting(part, "num_blocks"),
        *site.vector("dev_type", 1),
        *_projection(site, merged, hidden) * 2,
    )
