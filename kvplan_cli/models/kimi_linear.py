"""Kimi Linear and Kimi K3: delta attention beside latent attention.

Source: vLLM 0.33.0 ``vllm/models/kimi_k3/nvidia/model.py`` and
``vllm/transformers_utils/configs/kimi_linear.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import largest_of_layers
from kvplan_cli.models.hybrid import HybridLayout, Part
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent_stack import LatentStack
from kvplan_cli.models.recurrent import DeltaAttentionState

_LAYER_NAME: Final = "model.layers.{}.self_attn"


def _linear(language: Language) -> HfConfig:
    return language.config.section("linear_attn_config")


def _parts(language: Language) -> Sequence[Part]:
    """``kda_layers`` counts from one; all others attend."""
    listed = _linear(language).list("kda_layers")
    return [
        Part.STATE if index + 1 in listed else Part.ATTENTION
        for index in range(language.num_hidden_layers)
    ]


def _state(language: Language) -> DeltaAttentionState:
    linear = _linear(language)
    # Only a full-rank gate is served by the layer class of Kimi K3.
    full_rank = bool(linear.optional_boolean("use_full_rank_gate"))
    bounded = linear.optional_number("gate_lower_bound") is not None
    return DeltaAttentionState(
        num_heads=linear.positive("num_heads"),
        head_dim=linear.positive("head_dim"),
        conv_kernel=linear.positive("short_conv_kernel_size"),
        own_backend=full_rank,
        layer_reads_dtype=full_rank,
        exports_checkpoints=full_rank and bounded,
    )


KIMI_LINEAR: Final = HybridLayout(
    parts=_parts,
    state=_state,
    state_name=_LAYER_NAME,
    attention=LatentStack(_LAYER_NAME),
    dims=largest_of_layers,
)
