"""Whisper-like audio encoders.

Source: vLLM 0.33.0 ``models/{qwen2_audio,audioflamingo3,qwen2_5_omni_thinker,voxtral}.py``
and ``models/{voxtral_realtime,whisper_causal}.py``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.layers import sized
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.memory.weights.towers.encoder import Block, text_hidden
from kvplan_cli.memory.weights.towers.qwen import qwen2_5_tower, qwen3_vl

_WIDTH = sized("d_model", "hidden_size")
_INNER = sized("encoder_ffn_dim", "intermediate_size")
_DEPTH = sized("encoder_layers", "num_hidden_layers")
_KERNEL = 3
_STRIDES = 3
_WHISPER_INNER = 1536
# The engine's own class; the one of ``transformers`` has no such key.
# Source: vLLM 0.33.0 ``transformers_utils/configs/qwen3_asr.py``.
_QWEN3_POSITIONS = 1500


def whisper_convolutions(site: Site, part: HfConfig) -> Tensors:
    """From bands to the width of the layers, over time."""
    width, bands = _WIDTH(part), part.positive("num_mel_bins")
    return (
        *site.plain("conv1", bands * _KERNEL, width, bias=True),
        *site.plain("conv2", width * _KERNEL, width, bias=True),
    )


def _whisper(site: Site, part: HfConfig) -> Tensors:
    """Convolutions, layers without a bias of the keys, the last norm; all whole."""
    width, whole = _WIDTH(part), site.replicated_site()
    block = Block(hidden_size=width, intermediate_size=_INNER(part), key_bias=False)
    return (
        *whisper_convolutions(whole, part),
        *block.tensors(whole, _DEPTH(part)),
        *Norm.WITH_BIAS.at(site, width, "layer_norm"),
    )


def whisper(site: Site, part: HfConfig) -> Tensors:
    """The same with its learned positions."""
    return _whisper(site, part) + site.vector("embed_positions", _positions(part))


def _positions(part: HfConfig) -> int:
    return part.positive("max_source_positions") * _WIDTH(part)


def qwen2_audio(site: Site, config: HfConfig) -> Tensors:
    part = config.section("audio_config")
    return (
        *whisper(site, part),
        *site.plain("linear", _WIDTH(part), text_hidden(config), bias=True),
    )


def audio_flamingo3(site: Site, config: HfConfig) -> Tensors:
    part, hidden = config.section("audio_config"), text_hidden(config)
    bias = config.optional_boolean("projector_bias") is not False
    return (
        *whisper(site, part),
        *site.plain("linear_1", _WIDTH(part), hidden, bias=bias),
        *site.plain("linear_2", hidden, hidden, bias=bias),
    )


def qwen2_5_omni(site: Site, config: HfConfig) -> Tensors:
    """The thinker's ears; the talker is not served."""
    part = config.section("thinker_config").section("audio_config")
    outputs = part.positive("output_dim")
    return (
        *_whisper(site, part),
        *site.vector("audio_bos_eos_token", 2 * outputs),
        *site.plain("proj", _WIDTH(part), outputs, bias=True),
        *site.vector("positional_embedding", _positions(part), FLOAT32),
    )


def qwen2_5_omni_eyes(site: Site, config: HfConfig) -> Tensors:
    return qwen2_5_tower(site, config.section("thinker_config").section("vision_config"))


def qwen3_asr(site: Site, config: HfConfig) -> Tensors:
    """Three convolutions over bands and time, then layers that are shared out
    where the ranks divide their heads."""
    thinker = config.optional_section("thinker_config") or config
    part = thinker.section("audio_config")
    width, channels = _WIDTH(part), part.positive("downsample_hidden_size")
    positions = part.optional_integer("max_source_positions", minimum=1) or _QWEN3_POSITIONS
    outputs = part.positive("output_dim")
    bands = part.positive("num_mel_bins")
    for _ in range(_STRIDES):
        bands = (bands + 1) // 2
    square = _KERNEL * _KERNEL
    block = Block(hidden_size=width, intermediate_size=_INNER(part))
    whole = part.positive("encoder_attention_heads") % site.tensor_parallel_size != 0
    place = site.replicated_site() if whole else site
    return (
        *site.plain("conv2d1", square, channels, bias=True),
        *site.plain("conv2d", channels * square, channels, bias=True) * (_STRIDES - 1),
        *site.plain("conv_out", channels * bands, width),
        *block.tensors(place, _DEPTH(part)),
        *Norm.WITH_BIAS.at(site, width, "ln_post"),
        *site.plain("proj1", width, width, bias=True),
        *site.plain("proj2", width, outputs, bias=True),
        *site.vector("positional_embedding", positions * width, FLOAT32),
    )


def voxtral(site: Site, config: HfConfig) -> Tensors:
    """Whisper's encoder with fp32 positions and filters, and two linears over frames put
    together."""
    part, hidden = config.section("audio_config"), text_hidden(config)
    width, bands = _WIDTH(part), part.positive("num_mel_bins")
    block = Block(hidden_size=width, intermediate_size=_INNER(part))
    return (
        *whisper_convolutions(site, part),
        *block.tensors(site, _DEPTH(part)),
        *Norm.WITH_BIAS.at(site, width, "layer_norm"),
        *site.vector("embed_positions", _positions(part), FLOAT32),
        *site.vector("mel_filters", (1 + part.positive("window_size") // 2) * bands, FLOAT32),
        *site.plain("w_in", width * part.positive("downsample_factor"), hidden),
        *site.plain("w_out", hidden, hidden),
    )


def voxtral_realtime(site: Site, config: HfConfig) -> Tensors:
    """A causal encoder with rotary positions, gated feed-forwards and norms without bias."""
    part, hidden = config.section("audio_config"), text_hidden(config)
    width, bands, inner = _WIDTH(part), part.positive("num_mel_bins"), _INNER(part)
    heads = part.positive("encoder_attention_heads")
    wide = heads * part.positive("encoder_head_dim")
    layer = (
        *site.column("qkv_proj", width, (wide,) * 3, bias=True),
        *site.row("out_proj", wide, width, bias=True),
        *site.column("gate_up_proj", width, (inner, inner)),
        *site.row("down_proj", inner, width, bias=True),
        *Norm.ONE.at(site, width) * 2,
        *cache_scales(site),
    )
    rows = part.positive("max_position_embeddings")
    return (
        *whisper_convolutions(site, part),
        *layer * _DEPTH(part),
        *Norm.ONE.at(site, width, "layer_norm"),
        *site.vector("rotary_emb.cos_sin_cache", rows * (wide // heads)),
        *site.vector("mel_filters", (1 + part.positive("window_size") // 2) * bands, FLOAT32),
        *site.plain("w_in", width * part.positive("downsample_factor"), hidden),
        *site.plain("w_out", hidden, hidden),
    )


def time_embedding(site: Site, config: HfConfig) -> Tensors:
    """Inverse frequencies of the delay."""
    return site.vector("time_embedding.inv_freq", text_hidden(config) // 2, FLOAT32)


def glm_asr(site: Site, config: HfConfig) -> Tensors:
    part, hidden = config.section("audio_config"), text_hidden(config)
    width, inner = _WIDTH(part), _INNER(part)
    block = Block(hidden_size=width, intermediate_size=inner)
    rotary = width // part.positive("num_attention_heads") // 2
    return (
        *whisper_convolutions(site, part),
        *block.tensors(site, _DEPTH(part)),
        *Norm.WITH_BIAS.at(site, width, "norm"),
        *site.vector("inv_freq", rotary // 2, FLOAT32),
        *site.column("linear_1", inner, 2 * hidden, bias=True),
        *site.row("linear_2", 2 * hidden, hidden, bias=True),
    )


def moss_transcribe(site: Site, config: HfConfig) -> Tensors:
    """Whisper's encoder with a bias of the keys, and two linears over frames put together."""
    part, hidden = config.section("audio_config"), text_hidden(config)
    width = _WIDTH(part)
    merged = width * config.positive("audio_merge_size")
    bias = config.optional_boolean("projector_bias") is not False
    # Whisper's class has its own name for the size, and takes its default without it.
    inner = part.optional_integer("encoder_ffn_dim", minimum=1) or _WHISPER_INNER
    block = Block(hidden_size=width, intermediate_size=inner)
    return (
        *whisper_convolutions(site, part),
        *block.tensors(site, _DEPTH(part)),
        *Norm.WITH_BIAS.at(site, width, "layer_norm"),
        *site.vector("embed_positions", _positions(part)),
        *site.plain("vq_adaptor.0", merged, hidden, bias=bias),
        *site.plain("vq_adaptor.2", hidden, hidden, bias=bias),
        *Norm.WITH_BIAS.at(site, hidden, "vq_adaptor.3"),
    )


def aligner_head(site: Site, config: HfConfig) -> Tensors:
    """Qwen3's forced aligner: a class for each step of time, in the model dtype."""
    thinker = config.optional_section("thinker_config") or config
    classes = thinker.positive("classify_num")
    return site.unquantized().plain("classifier", text_hidden(config), classes)


def qwen3_omni_eyes(site: Site, config: HfConfig) -> Tensors:
    """The thinker's eyes; the talker is not served."""
    return qwen3_vl(site, config.section("thinker_config"))


def ultravox(site: Site, config: HfConfig) -> Tensors:
    """Whisper's encoder, and a gated projector over frames put together."""
    part, hidden = config.section("audio_config"), text_hidden(config)
    if config.optional_integer("num_projector_layers", minimum=0):
        raise unknown("Ultravox's projector with layers is not described", config.origin)
    width, inner = _WIDTH(part), config.positive("hidden_size")
    merged = width * config.positive("stack_factor")
    gated = (config.optional_text("projector_act") or "swiglu") == "swiglu"
    middle = inner // 2 if gated else inner
    normed_inside = config.optional_boolean("projector_ln_mid") is True
    block = Block(hidden_size=width, intermediate_size=_INNER(part))
    return (
        *whisper_convolutions(site, part),
        *block.tensors(site, _DEPTH(part)),
        *Norm.WITH_BIAS.at(site, width, "layer_norm"),
        *site.vector("embed_positions", _positions(part)),
        *Norm.ONE.at(site, merged, "ln_pre"),
        *site.plain("linear_1", merged, inner),
        *site.plain("linear_2", middle, hidden),
        *Norm.ONE.at(site, middle if normed_inside else hidden, "ln"),
    )
