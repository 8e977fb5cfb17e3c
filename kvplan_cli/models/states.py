"""Models with recurrent states: Mamba 1 and 2, Gated DeltaNet, short convolutions.

A row names its layout; the state's dimensions are in ``state_dims``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.models import state_dims
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped
from kvplan_cli.models.bailing import BAILING_2_5, BAILING_3
from kvplan_cli.models.flags import causal_unless_switched_off
from kvplan_cli.models.heads import split_heads
from kvplan_cli.models.hybrid import (
    HybridLayout,
    StateStack,
    both_in_each,
    parts_by_layer_types,
)
from kvplan_cli.models.kimi_linear import KIMI_LINEAR
from kvplan_cli.models.nemotron_h import NEMOTRON_H
from kvplan_cli.models.reach import unwindowed
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.models.zamba import ZAMBA2

_GROUPED: Final = Decoder(reach=unwindowed)
_GATED: Final = replace(_GROUPED, causal=causal_unless_switched_off)
_SPLIT: Final = Decoder(heads=split_heads, reach=unwindowed)
_BARE: Final = "model.layers.{}.attn"

JAMBA: Final = HybridLayout(
    parts=parts_by_layer_types,
    state=state_dims.jamba,
    state_name="model.layers.{}.mixer",
    attention=replace(_SPLIT, layer_name=_BARE),
)
GRANITE: Final = HybridLayout(
    parts=parts_by_layer_types,
    state=state_dims.granite,
    state_name="model.layers.{}.mixer",
    attention=_SPLIT,
)
FALCON_H1: Final = HybridLayout(
    parts=both_in_each,
    state=state_dims.falcon_h1,
    state_name="model.{}.mixer",
    attention=replace(_GROUPED, layer_name=_BARE),
    numbered_after_attention=True,
)
LFM2: Final = HybridLayout(
    parts=parts_by_layer_types,
    state=state_dims.lfm2,
    state_name="model.layers.{}.short_conv",
    attention=_SPLIT,
)
LFM2_MOE: Final = replace(LFM2, state=state_dims.lfm2_moe)
QWEN3_NEXT: Final = HybridLayout(
    parts=parts_by_layer_types,
    state=state_dims.gated_delta,
    state_name="model.layers.{}.linear_attn",
    attention=_GATED,
)
OLMO_HYBRID: Final = replace(QWEN3_NEXT, state=state_dims.olmo_hybrid, attention=_SPLIT)
ALICE_AI: Final = replace(QWEN3_NEXT, state=state_dims.alice_ai, attention=_GROUPED)

_HYBRID: Final = Architecture(name="", is_hybrid=True)
_ATTENTION_FREE: Final = Architecture(name="", is_attention_free=True)
_LANGUAGE_PART: Final = Wrapped(inner=QWEN3_NEXT, prefix="")

ROWS: Final[Sequence[Architecture]] = (
    replace(_ATTENTION_FREE, name="MambaForCausalLM", model=StateStack(state=state_dims.mamba1)),
    replace(
        _ATTENTION_FREE, name="FalconMambaForCausalLM", model=StateStack(state=state_dims.mamba1)
    ),
    replace(
        _ATTENTION_FREE,
        name="Mamba2ForCausalLM",
        model=StateStack(state=state_dims.mamba2),
        supports_pp=False,
    ),
    replace(_HYBRID, name="JambaForCausalLM", model=JAMBA),
    replace(
        _HYBRID,
        name="JambaForSequenceClassification",
        model=JAMBA,
        runner_type=RunnerType.POOLING,
    ),
    replace(_HYBRID, name="Zamba2ForCausalLM", model=ZAMBA2, supports_pp=False),
    replace(_HYBRID, name="FalconH1ForCausalLM", model=FALCON_H1),
    replace(_HYBRID, name="GraniteMoeHybridForCausalLM", model=GRANITE),
    replace(_HYBRID, name="NemotronHForCausalLM", model=NEMOTRON_H),
    *(
        replace(_HYBRID, name=name, model=Wrapped(), is_multimodal=True, supports_pp=False)
        for name in (
            "NemotronH_Nano_Omni_Reasoning_V3",
            "NemotronH_Nano_VL_V2",
            "NemotronH_Omni_Reasoning_V3",
            "NemotronH_Super_Omni_Reasoning_V3",
        )
    ),
    replace(_HYBRID, name="NemotronHPuzzleForCausalLM", model=NEMOTRON_H),
    replace(_HYBRID, name="Lfm2ForCausalLM", model=LFM2),
    replace(_HYBRID, name="Lfm2MoeForCausalLM", model=LFM2_MOE),
    replace(_HYBRID, name="Qwen3NextForCausalLM", model=QWEN3_NEXT),
    replace(_HYBRID, name="AliceAIForCausalLM", model=ALICE_AI, supports_pp=False),
    replace(_HYBRID, name="OlmoHybridForCausalLM", model=OLMO_HYBRID),
    replace(_HYBRID, name="BailingMoeV2_5ForCausalLM", model=BAILING_2_5),
    replace(_HYBRID, name="BailingMoeV3ForCausalLM", model=BAILING_3),
    replace(_HYBRID, name="KimiLinearForCausalLM", model=KIMI_LINEAR),
    replace(
        _HYBRID,
        name="KimiK3ForConditionalGeneration",
        model=Wrapped(inner=KIMI_LINEAR),
        is_multimodal=True,
    ),
    replace(_HYBRID, name="Qwen3_5ForCausalLM", model=_LANGUAGE_PART),
    replace(_HYBRID, name="Qwen3_5MoeForCausalLM", model=_LANGUAGE_PART),
    *(
        replace(_HYBRID, name=name, model=Wrapped(inner=QWEN3_NEXT), is_multimodal=True)
        for name in (
            "InternS2MobiusForConditionalGeneration",
            "InternS2PreviewForConditionalGeneration",
            "MiniCPMOcrForConditionalGeneration",
            "MiniCPMV4_6ForConditionalGeneration",
            "MiniCPMV4_7ForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        )
    ),
)
