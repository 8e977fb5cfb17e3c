"""Clef's decision models: Qwen's thinkers with a head that scores a schema's options.

Source: vLLM 0.33.0 ``models/{clef_flash,clef_omni}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.families.mixtures import QWEN3_MOE
from kvplan_cli.memory.weights.families.states import QWEN3_5
from kvplan_cli.memory.weights.model import Wrapper
from kvplan_cli.memory.weights.towers import audio, qwen
from kvplan_cli.memory.weights.towers.joint_schema import joint_schema_head

CLEFS: Final[Mapping[str, Wrapper]] = {
    "ClefFlashForJointSchema": Wrapper(
        decoder=QWEN3_5, towers=(qwen.qwen3_vl,), kept=(joint_schema_head,), keeps_head=True
    ),
    "ClefOmniForJointSchema": Wrapper(
        decoder=QWEN3_MOE,
        towers=(audio.qwen3_asr, audio.qwen3_omni_eyes),
        kept=(joint_schema_head,),
        keeps_head=True,
    ),
}
