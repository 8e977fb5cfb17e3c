"""Voxtral that listens while it speaks: its causal encoder caches states of its own.

Source: vLLM 0.33.0 ``models/{voxtral_realtime,whisper_causal}.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, LayerStack

_NAME: Final = "whisper_encoder.whisper_encoder.layers.{}.layers.self_attn.attn"


def causal_encoder(config: HfConfig) -> LayerStack:
    """Windows over the encoder's states, of which each token of the language part takes several."""
    audio = config.section("audio_config")
    heads, head_size = audio.positive("encoder_attention_heads"), audio.positive("encoder_head_dim")
    layers = tuple(
        AttentionLayer(
            name=_NAME.format(index),
            decoder_layer=index,
            kind=AttentionKind.SLIDING,
            num_attention_heads=heads,
            num_kv_heads=heads,
            head_size=head_size,
            head_size_v=head_size,
            sliding_window=audio.positive("sliding_window"),
            states_per_token=audio.positive("block_pool_size"),
        )
        for index in range(audio.positive("encoder_layers"))
    )
    return LayerStack(layers=layers, num_layers=len(layers))


ROWS: Final[Sequence[Architecture]] = (
    Architecture(
        name="VoxtralRealtimeGeneration",
        model=Wrapped(),
        is_multimodal=True,
        encoder=causal_encoder,
    ),
)
