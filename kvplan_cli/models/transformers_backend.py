"""Architectures that the engine runs through the Transformers library's own modules.

Source: vLLM 0.33.0 ``models/transformers/base.py:_create_attention_instances``: heads and
sizes of the config as a whole, windows by ``layer_types``, names of the library's modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, rows
from kvplan_cli.models.flags import soft_capped, soft_capped_by_default
from kvplan_cli.models.heads import equal_heads, multi_query_heads
from kvplan_cli.models.reach import by_layer_types

PLAIN: Final = Decoder(reach=by_layer_types, soft_cap=soft_capped)

ROWS: Final[Sequence[Architecture]] = (
    *rows(
        PLAIN,
        "ArceeForCausalLM",
        "CwmForCausalLM",
        "FlexOlmoForCausalLM",
        "GlmForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "Jais2ForCausalLM",
        "Kolibri1ForCausalLM",
        "MellumForCausalLM",
        "NanbeigeForCausalLM",
        "Olmo2ForCausalLM",
        "Olmo3ForCausalLM",
        "OlmoForCausalLM",
        "PhiForCausalLM",
        "SeedOssForCausalLM",
        "SmolLM3ForCausalLM",
        "Starcoder2ForCausalLM",
    ),
    *rows(
        Decoder(
            layer_name="model.h.{}.attn.attn",
            heads=multi_query_heads,
            soft_cap=soft_capped,
        ),
        "GPTBigCodeForCausalLM",
    ),
    *rows(
        Decoder(
            layer_name="model.layers.{}.attention.attn",
            heads=equal_heads,
            soft_cap=soft_capped,
        ),
        "GPTNeoXForCausalLM",
    ),
    *rows(
        Decoder(reach=by_layer_types, soft_cap=soft_capped_by_default),
        "VaultGemmaForCausalLM",
    ),
)
