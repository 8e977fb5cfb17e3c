"""Attention with low-rank projections that keeps plain keys and values in its cache.

Source: vLLM 0.33.0 ``models/minicpm3.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.latent import unfolded_attention
from kvplan_cli.memory.weights.layers import given, sized
from kvplan_cli.memory.weights.rope import RopeTables

LATENT: Final[Mapping[str, Decoder]] = {
    "MiniCPM3ForCausalLM": Decoder(
        attention=unfolded_attention,
        rope=RopeTables(head_size=sized("qk_rope_head_dim")),
        tied=given("tie_word_embeddings", absent=True),
        everywhere=True,
    )
}
