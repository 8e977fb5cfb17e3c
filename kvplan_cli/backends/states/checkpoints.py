"""Which layers hand out states from inside a prefill, so that it need not be split.

Source: vLLM 0.33.0 ``layers/mamba/mamba_mixer2.py:get_kv_cache_spec``,
``layers/mamba/gdn/qwen_gdn_linear_attn.py`` (``_resolve_gdn_prefill_backend``,
``get_kv_cache_spec``), ``layers/mamba/{abstract,kda_checkpoint}.py``,
``vllm/models/kimi_k3/nvidia/kda.py:is_flashkda_supported`` and
``vllm/models/qwen4_exp/nvidia/ple_layer.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from kvplan_cli.backends.facts import Capability, Facts
from kvplan_cli.dtypes import DType
from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules, PrefillCheckpoints
from kvplan_cli.models.recurrent import (
    DeltaAttentionState,
    GatedDeltaState,
    Mamba2State,
    RecurrentState,
    ShortConvState,
)
from kvplan_cli.values import dataclass

# Tokens between the states that a prefill kernel emits.
_FLASHINFER_ALIGNMENT: Final = 64
_FLASHKDA_ALIGNMENT: Final = 16
# The only head that FlashInfer takes on Blackwell, and FlashKDA anywhere.
_HEAD: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillKernel:
    """What the choice of a prefill kernel goes by. dtype: the model's. rules: the release's.

    gdn: the kernel of gated delta layers as asked for, or ``auto``. prefix_match_unit: tokens.
    """

    capability: Capability
    dtype: DType
    rules: EngineRules = NEWEST_RULES
    gdn: str = "auto"
    prefix_match_unit: int | None = None

    @classmethod
    def of(cls, facts: Facts, dtype: DType) -> PrefillKernel:
        """On the card of ``facts``, under its flags."""
        return cls(
            capability=facts.capability,
            dtype=dtype,
            rules=facts.rules,
            gdn=facts.gdn_prefill_backend,
            prefix_match_unit=facts.prefix_match_unit,
        )

    def grid(self, on_stage: int, mamba_block_size: int) -> int:
        """Tokens between the states that all layers of a stage keep.

        Source: vLLM 0.33.0 ``layers/mamba/abstract.py:get_mamba_prefill_checkpoint_grid``.
        """
        if self.prefix_match_unit is None:
            return mamba_block_size
        return math.lcm(self.prefix_match_unit, on_stage)

    def hands_out(self, layers: PrefillCheckpoints) -> bool:
        """Whether the release's layers of this kind hand out states at all."""
        return self.rules.prefill_checkpoints >= layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """num_blocks: further blocks of a request. alignment: tokens, None without a demand."""

    num_blocks: int = 0
    alignment: int | None = None


def stage_alignment(
    states: Iterable[RecurrentState], kernel: PrefillKernel, *, aligned: bool
) -> int | None:
    """Tokens that every layer of a stage can hand states out at; None where one cannot.

    aligned: states are cached at block ends.
    """
    stated = [_block_alignment(state, kernel) if aligned else None for state in states]
    known = [alignment for alignment in stated if alignment is not None]
    return math.lcm(*known) if len(known) == len(stated) else None


def layer_checkpoints(
    state: RecurrentState,
    kernel: PrefillKernel,
    *,
    on_stage: int | None,
    mamba_block_size: int,
) -> Checkpoints:
    """What the layer's spec says. on_stage: the alignment of the whole stage."""
    match state:
        case Mamba2State() if kernel.hands_out(PrefillCheckpoints.MAMBA2):
            return Checkpoints(num_blocks=1, alignment=1)
        case GatedDeltaState() if on_stage is not None and _runs_flashinfer(state, kernel):
            return Checkpoints(num_blocks=1, alignment=kernel.grid(on_stage, mamba_block_size))
        case ShortConvState() if state.embeds and on_stage is not None:
            return Checkpoints(num_blocks=1, alignment=kernel.grid(on_stage, mamba_block_size))
        case DeltaAttentionState() if _runs_flashkda(state, kernel):
            return Checkpoints(num_blocks=1, alignment=_FLASHKDA_ALIGNMENT)
        case _:
            return Checkpoints()


def _block_alignment(state: RecurrentState, kernel: PrefillKernel) -> int | None:
    """What the layer asks of block sizes; Mamba 2 and delta attention leave them alone."""
    if isinstance(state, ShortConvState) and state.embeds:
        return 1
    runs = isinstance(state, GatedDeltaState) and _runs_flashinfer(state, kernel)
    return _FLASHINFER_ALIGNMENT if runs else None


def _runs_flashinfer(state: GatedDeltaState, kernel: PrefillKernel) -> bool:
    """On Hopper, and for one head size on Blackwell, unless another kernel is asked for."""
    if kernel.gdn not in ("auto", "flashinfer"):
        return False
    if not state.exports_checkpoints or not kernel.hands_out(PrefillCheckpoints.GATED_DELTA):
        return False
    blackwell = kernel.capability[0] in (10, 12) and state.head_k_dim == _HEAD
    return kernel.capability == (9, 0) or blackwell


def _runs_flashkda(state: DeltaAttentionState, kernel: PrefillKernel) -> bool:
    return (
        state.exports_checkpoints
        and kernel.hands_out(PrefillCheckpoints.DELTA_ATTENTION)
        and state.head_dim == _HEAD
        and kernel.dtype is DType.BFLOAT16
        and kernel.capability[0] in (9, 10, 12)
    )
