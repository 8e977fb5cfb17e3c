"""The backends that run recurrent states, and the element types of what they keep.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/registry.py:MambaAttentionBackendEnum`` and
``vllm/model_executor/layers/mamba/mamba_utils.py:MambaStateDtypeCalculator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.backends.backend import Backend
from kvplan_cli.dtypes import DType
from kvplan_cli.models.recurrent import (
    GatedDeltaState,
    Mamba1State,
    Mamba2State,
    RecurrentState,
    ShortConvState,
)
from kvplan_cli.settings.mamba import AUTO
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs.state import MAMBA2_BACKEND
from kvplan_cli.values import dataclass

_MODULE: Final = "vllm.v1.attention.backends"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBackend:
    """backend: its row among all backends. mamba_type: the engine's path of its class."""

    backend: Backend
    mamba_type: str


def _row(name: str, mamba_type: str) -> StateBackend:
    backend = Backend(
        name=name, dtypes=frozenset(DType), kv_cache_dtype=lambda _name, _facts: True, ssm=True
    )
    return StateBackend(backend=backend, mamba_type=mamba_type)


STATE_BACKENDS: Final[Mapping[type[RecurrentState], StateBackend]] = {
    Mamba1State: _row("MAMBA1_ATTN", f"{_MODULE}.mamba1_attn.Mamba1AttentionBackend"),
    Mamba2State: _row("MAMBA2_ATTN", MAMBA2_BACKEND),
    GatedDeltaState: _row("GDN_ATTN", f"{_MODULE}.gdn_attn.GDNAttentionBackend"),
    ShortConvState: _row("SHORT_CONV_ATTN", f"{_MODULE}.short_conv_attn.ShortConvAttentionBackend"),
}


def state_dtypes(state: RecurrentState, settings: ResolvedSettings) -> tuple[DType, ...]:
    """Element types of the convolution window and, where there is one, the state."""
    named = settings.mamba_cache_dtype
    window = settings.dtype if named == AUTO else DType.from_name(named)
    if isinstance(state, ShortConvState):
        return (window,)
    recurrent = settings.mamba_ssm_cache_dtype
    return window, window if recurrent == AUTO else DType.from_name(recurrent)
