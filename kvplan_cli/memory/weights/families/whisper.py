"""Whisper: an audio encoder and a decoder with attention to it.

Source: vLLM 0.33.0 ``models/whisper.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.feed_forward import Plain
from kvplan_cli.memory.weights.layers import LayerFacts, always, size, sized
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import no_rope
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.audio import whisper_convolutions
from kvplan_cli.memory.weights.towers.encoder import Block


def attends_to_encoder(facts: LayerFacts) -> Tensors:
    """Attention to the past, then to the encoder's outputs."""
    hidden, site = facts.hidden_size, facts.site
    return (
        *site.column("self_attn.qkv_proj", hidden, (hidden, hidden, hidden), bias=True),
        *site.row("self_attn.out_proj", hidden, hidden, bias=True),
        *site.column("encoder_attn.q_proj", hidden, hidden, bias=True),
        *site.column("encoder_attn.kv_proj", hidden, (hidden, hidden), bias=True),
        *site.row("encoder_attn.out_proj", hidden, hidden, bias=True),
        *cache_scales(site) * 2,
    )


def _encoder(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden = size(config, "hidden_size")
    block = Block(hidden_size=hidden, intermediate_size=config.positive("encoder_ffn_dim"))
    return (
        *whisper_convolutions(site, config),
        *block.tensors(site, config.positive("encoder_layers")),
        *Norm.WITH_BIAS.at(site, hidden, "encoder.layer_norm"),
        *site.vector("encoder.embed_positions", config.positive("max_source_positions") * hidden),
    )


def _ends(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Every rank holds the whole embedding, which is the head as well."""
    hidden = size(config, "hidden_size")
    return (
        *site.vector("embed_tokens", config.positive("vocab_size") * hidden),
        *site.vector("embed_positions", config.positive("max_target_positions") * hidden),
        *Norm.WITH_BIAS.at(site, hidden, "decoder.layer_norm"),
    )


WHISPER: Final[Mapping[str, Decoder]] = {
    "WhisperForConditionalGeneration": Decoder(
        attention=attends_to_encoder,
        feed_forward=Plain(intermediate=sized("decoder_ffn_dim"), bias=always),
        norms=layer_norms(3, Norm.WITH_BIAS),
        rope=no_rope,
        tied=always,
        ends=_ends,
        extras=_encoder,
    )
}
