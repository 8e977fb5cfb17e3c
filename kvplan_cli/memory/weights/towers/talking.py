"""Encoders of sound for models that answer in words: convolutions, then layers like Whisper's.

Source: vLLM 0.33.0 ``models/{funaudiochat,midashenglm,moss_audio,kimi_audio}.py``,
``transformers_utils/configs/{funaudiochat,midashenglm}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, INT64, Tensors
from kvplan_cli.memory.weights.towers.audio import whisper_convolutions
from kvplan_cli.memory.weights.towers.encoder import Block, pair, text_hidden, two_linears

# Of an absent key, by the engine's own config classes.
_FUN: Final[Mapping[str, int]] = {
    "num_mel_bins": 128,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "d_model": 1280,
    "max_source_positions": 1500,
    "output_dim": 3584,
}
_DASHENG: Final[Mapping[str, object]] = {
    "embed_dim": 768,
    "patch_size": 16,
    "patch_stride": 16,
    "input_channels": 1,
    "target_length": 1012,
    "depth": 12,
    "mlp_ratio": 4.0,
    "qkv_bias": True,
    "win_length": 512,
    "n_fft": 512,
    "n_mels": 64,
}
_MOSS: Final[Mapping[str, object]] = {
    "d_model": 1280,
    "output_dim": 1280,
    "num_mel_bins": 128,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "downsample_hidden_size": 480,
    "deepstack_encoder_layer_indexes": (8, 16, 24),
}


def _part(config: HfConfig, key: str, defaults: Mapping[str, object]) -> HfConfig:
    """A section with what its class takes for an absent key."""
    part = config.optional_section(key) or HfConfig({}, config.origin, config.where(key))
    return HfConfig({**defaults, **part.values}, part.origin, part.path)


def fun_audio_chat(site: Site, config: HfConfig) -> Tensors:
    """A continuous encoder, of which the ranks share only attention, and a table of codes."""
    part = _part(config, "audio_config", _FUN)
    width, outputs = part.positive("d_model"), part.positive("output_dim")
    inner, positions = part.positive("encoder_ffn_dim"), part.positive("max_source_positions")
    layer = (
        *site.column("qkv_proj", width, (width,) * 3, bias=True),
        *site.row("out_proj", width, width, bias=True),
        *site.plain("fc1", width, inner, bias=True),
        *site.plain("fc2", inner, width, bias=True),
        *Norm.WITH_BIAS.at(site, width) * 2,
    )
    return (
        *whisper_convolutions(site, part),
        *layer * part.positive("encoder_layers"),
        *Norm.WITH_BIAS.at(site, width, "ln_post"),
        *site.plain("proj", width, outputs, bias=True),
        *site.vector("audio_bos_eos_token", 2 * outputs),
        *site.vector("positional_embedding", positions * width, FLOAT32),
        *site.vector("embed_tokens", part.positive("codebook_size") * outputs),
        *site.plain("output_matching", outputs, outputs) * 2,
    )


def _dasheng_front(site: Site, part: HfConfig) -> Tensors:
    """The spectrum's window and filters, norms of its bands, patches and their places."""
    bands, width = part.positive("n_mels"), part.positive("embed_dim")
    height, length = pair(part, "patch_size")
    down, along = pair(part, "patch_stride")
    places = bands // down + part.positive("target_length") // along
    return (
        *site.vector("spectrogram_window", part.positive("win_length")),
        *site.vector("melscale_fbanks", (part.positive("n_fft") // 2 + 1) * bands),
        *site.vector("init_bn", bands) * 4,
        *site.vector("init_bn.num_batches_tracked", 1, INT64),
        *site.plain("patch", part.positive("input_channels") * height * length, width, bias=True),
        *site.vector("pos_embed", places * width),
    )


def midasheng(site: Site, config: HfConfig) -> Tensors:
    """Dasheng's transformer over patches of the spectrum, and a projector of frames together."""
    part = _part(config, "audio_encoder_config", _DASHENG)
    width, hidden = part.positive("embed_dim"), text_hidden(config)
    block = Block(
        hidden_size=width,
        intermediate_size=int(width * (part.optional_number("mlp_ratio") or 0)),
        qkv_bias=part.boolean("qkv_bias"),
    )
    scales = site.vector("ls.gamma", width) * 2 if part.optional_number("init_values") else ()
    depth = part.positive("depth")
    factor = config.optional_integer("subsample_factor", minimum=1) or _PUT_TOGETHER
    return (
        *_dasheng_front(site, part),
        *block.tensors(site, depth),
        *scales * depth,
        *Norm.WITH_BIAS.at(site, width, "norm"),
        *two_linears(site, factor * width, hidden, hidden),
    )


# The section that Whisper's own config is read into, from the file that the engine reads.
WHISPER: Final = "whisper_config"
_ADAPTED = 5120


def kimi_audio(site: Site, config: HfConfig) -> Tensors:
    """Whisper's encoder with a bias of the keys, and two linears with a norm behind them."""
    part, hidden = config.optional_section(WHISPER), text_hidden(config)
    if part is None:
        raise unknown(
            "Kimi-Audio's encoder is described by whisper-large-v3/config.json, which is not there",
            config.origin,
        )
    width = part.positive("d_model")
    merged = config.optional_integer("kimia_adaptor_input_dim", minimum=1) or _ADAPTED
    block = Block(hidden_size=width, intermediate_size=part.positive("encoder_ffn_dim"))
    return (
        *whisper_convolutions(site, part),
        *block.tensors(site, part.positive("encoder_layers")),
        *Norm.WITH_BIAS.at(site, width, "layer_norm"),
        *site.vector("embed_positions", part.positive("max_source_positions") * width),
        *site.plain("vq_adaptor_layers_0", merged, hidden, bias=True),
        *site.plain("vq_adaptor_layers_3", hidden, hidden, bias=True),
        *Norm.WITH_BIAS.at(site, hidden, "vq_adaptor_layers_4"),
    )


_PUT_TOGETHER = 5
_SQUARE = 3 * 3


def _adapter(site: Site, width: int, inner: int, hidden: int) -> Tensors:
    """A gated projector."""
    up = site.column("gate_up_proj", width, (inner, inner))
    return up + site.row("down_proj", inner, hidden)


def moss_audio(site: Site, config: HfConfig) -> Tensors:
    """Three convolutions, layers without a bias of the keys, and a projector for each place
    that is fed."""
    part, hidden = _part(config, "audio_config", _MOSS), text_hidden(config)
    width, outputs = part.positive("d_model"), part.positive("output_dim")
    channels = part.positive("downsample_hidden_size")
    bands = (part.positive("num_mel_bins") + 7) // 8
    inner = config.positive("adapter_hidden_size")
    block = Block(
        hidden_size=width, intermediate_size=part.positive("encoder_ffn_dim"), key_bias=False
    )
    read = len(part.optional_list("deepstack_encoder_layer_indexes") or ())
    fed = config.optional_integer("deepstack_num_inject_layers", minimum=0)
    projectors = 1 + (read if fed is None else min(read, fed))
    return (
        *site.plain("conv1", _SQUARE, channels, bias=True),
        *site.plain("conv", _SQUARE * channels, channels, bias=True) * 2,
        *site.replicated("stem_proj", channels * bands, width, bias=True),
        *site.vector("embed_positions.inv_timescales", width // 2, FLOAT32),
        *block.tensors(site, part.positive("encoder_layers")),
        *Norm.WITH_BIAS.at(site, width, "layer_norm"),
        *(site.replicated("out_proj", width, outputs) if outputs != width else ()),
        *_adapter(site, outputs, inner, hidden) * projectors,
    )
