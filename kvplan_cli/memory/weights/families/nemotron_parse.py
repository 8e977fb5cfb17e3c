"""Nemotron Parse: RADIO before an MBart decoder that attends to what it saw.

Source: vLLM 0.33.0 ``models/nemotron_parse.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.memory.weights.families.rarer import MBART
from kvplan_cli.memory.weights.families.whisper import attends_to_encoder
from kvplan_cli.memory.weights.feed_forward import Plain
from kvplan_cli.memory.weights.layers import always, given, sized
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.norms import Norm, layer_norms
from kvplan_cli.memory.weights.towers.nemotron import radio_with_fixed_neck

# The feed-forward is as wide as the config says of an encoder, which the model has not.
_DECODER: Final = replace(
    MBART,
    attention=attends_to_encoder,
    feed_forward=Plain(intermediate=sized("encoder_ffn_dim"), bias=always),
    norms=layer_norms(3, Norm.WITH_BIAS),
    tied=given("tie_word_embeddings", absent=True),
)
NEMOTRON_PARSE: Final = Wrapper(decoder=_DECODER, towers=(radio_with_fixed_neck,))
