"""Qwen4 Exp: Gated DeltaNet beside attention, as far as no embedding or indexer has a cache.

Source: vLLM 0.33.0 ``vllm/models/qwen4_exp/nvidia/model.py`` and ``models/config.py``
(``Qwen4ExpForConditionalGenerationConfig``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError, Problem, UnplannableError
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped
from kvplan_cli.models.hybrid import HybridLayout, Part
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import unwindowed
from kvplan_cli.models.state_dims import gated_delta

_LINEAR: Final = "linear_attention"
_UNPLANNED: Final = ("ple_layer_ids", "indexer_n_heads")


def _parts(language: Language) -> Sequence[Part]:
    config = language.config
    for key in _UNPLANNED:
        if config.raw(key):
            raise UnplannableError(
                Problem(
                    where=f"{config.origin}: {config.where(key)}",
                    reason="kvplan does not plan the caches that this adds",
                    way_out="give the layer specs in a plan file to plan it all the same",
                )
            )
    if config.positive("hc_count") <= 1:
        raise EngineRefusalError(
            stage="config_error",
            error_type="ValidationError",
            message="Qwen4Exp requires hc_count > 1",
        )
    return [
        Part.STATE if kind == _LINEAR else Part.ATTENTION for kind in language.required_layer_types
    ]


QWEN4_EXP: Final = HybridLayout(
    parts=_parts,
    state=gated_delta,
    state_name="model.layers.{}.linear_attn",
    attention=Decoder(reach=unwindowed),
)

ROWS: Final[Sequence[Architecture]] = (
    Architecture(
        name="Qwen4ExpForCausalLM", model=Wrapped(inner=QWEN4_EXP, prefix=""), is_hybrid=True
    ),
    Architecture(
        name="Qwen4ExpForConditionalGeneration",
        model=Wrapped(inner=QWEN4_EXP),
        is_hybrid=True,
        is_multimodal=True,
    ),
)
