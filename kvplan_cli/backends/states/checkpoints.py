"""Which layers hand out states from inside a prefill, so that it need not be split.

Source: vLLM 0.33.0 ``layers/mamba/mamba_mixer2.py:get_kv_cache_spec``,
``layers/mamba/gdn/qwen_gdn_linear_attn.py`` (``_resolve_gdn_prefill_backend``,
``get_kv_cache_spec``) and ``layers/mamba/abstract.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from kvplan_cli.backends.facts import Capability
from kvplan_cli.models.recurrent import GatedDeltaState, Mamba2State, RecurrentState
from kvplan_cli.values import dataclass

_ALIGN: Final = "align"
# Tokens between the states that FlashInfer's prefill kernel emits.
_FLASHINFER_ALIGNMENT: Final = 64
# The head that FlashInfer's kernel takes on Blackwell.
_BLACKWELL_HEAD: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """num_blocks: further blocks of a request. alignment: tokens, None without a demand."""

    num_blocks: int = 0
    alignment: int | None = None


def stage_alignment(
    states: Iterable[RecurrentState], mamba_cache_mode: str, capability: Capability
) -> int | None:
    """Tokens that every layer of a stage can hand states out at; None where one cannot."""
    alignments = [_alignment(state, mamba_cache_mode, capability) for state in states]
    stated = [alignment for alignment in alignments if alignment is not None]
    return math.lcm(*stated) if len(stated) == len(alignments) else None


def layer_checkpoints(
    state: RecurrentState, on_stage: int | None, mamba_block_size: int, capability: Capability
) -> Checkpoints:
    """What the layer's spec says. on_stage: the alignment of the whole stage."""
    if isinstance(state, Mamba2State):
        return Checkpoints(num_blocks=1, alignment=1)
    emits = isinstance(state, GatedDeltaState) and _prefill_emits_states(state, capability)
    if emits and on_stage is not None:
        return Checkpoints(num_blocks=1, alignment=mamba_block_size)
    return Checkpoints()


def _alignment(state: RecurrentState, mamba_cache_mode: str, capability: Capability) -> int | None:
    if not isinstance(state, GatedDeltaState) or mamba_cache_mode != _ALIGN:
        return None
    return _FLASHINFER_ALIGNMENT if _prefill_emits_states(state, capability) else None


def _prefill_emits_states(state: GatedDeltaState, capability: Capability) -> bool:
    """FlashInfer runs the prefill: on Hopper, and for one head size on Blackwell."""
    if not state.exports_checkpoints:
        return False
    blackwell = capability[0] in (10, 12) and state.head_k_dim == _BLACKWELL_HEAD
    return capability == (9, 0) or blackwell
