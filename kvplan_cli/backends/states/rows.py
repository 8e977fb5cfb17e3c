"""The backends that run recurrent states, and the element types of what they keep.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/registry.py:MambaAttentionBackendEnum`` and
``vllm/model_executor/layers/mamba/mamba_utils.py:MambaStateDtypeCalculator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import DType
from kvplan_cli.models.recurrent import (
    DeltaAttentionState,
    GatedDeltaState,
    LinearAttentionState,
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


_GDN: Final = _row("GDN_ATTN", f"{_MODULE}.gdn_attn.GDNAttentionBackend")
_SHORT_CONV: Final = _row("SHORT_CONV_ATTN", f"{_MODULE}.short_conv_attn.ShortConvAttentionBackend")
_EMBEDDING: Final = _row("PLE_SHORT_CONV_ATTN", _SHORT_CONV.mamba_type)
_K3: Final = _row("KIMI_K3_KDA", _GDN.mamba_type)
_BY_STATE: Final[Mapping[type[RecurrentState], StateBackend]] = {
    Mamba1State: _row("MAMBA1_ATTN", f"{_MODULE}.mamba1_attn.Mamba1AttentionBackend"),
    Mamba2State: _row("MAMBA2_ATTN", MAMBA2_BACKEND),
    GatedDeltaState: _GDN,
    DeltaAttentionState: _GDN,
    LinearAttentionState: _row(
        "BAILING_LINEAR_ATTN", f"{_MODULE}.linear_attn.LinearAttentionBackend"
    ),
    ShortConvState: _SHORT_CONV,
}


def state_backend(state: RecurrentState) -> StateBackend:
    """The backend that runs a layer with this state."""
    if isinstance(state, DeltaAttentionState) and state.own_backend:
        return _K3
    if isinstance(state, ShortConvState) and state.embeds:
        return _EMBEDDING
    return _BY_STATE[type(state)]


def layer_dtypes(state: RecurrentState, settings: ResolvedSettings) -> tuple[DType, ...]:
    """Element types that a layer stores, of each of its shapes.

    Raises: EngineRefusalError for a type that the kernels do not take.
    """
    reads = not isinstance(state, DeltaAttentionState) or state.layer_reads_dtype
    return _dtypes(state, settings, settings.mamba_ssm_cache_dtype if reads else AUTO)


def model_dtypes(state: RecurrentState, settings: ResolvedSettings) -> tuple[DType, ...]:
    """The same as the model class states them."""
    reads = not isinstance(state, DeltaAttentionState) or state.model_reads_dtype
    return _dtypes(state, settings, settings.mamba_ssm_cache_dtype if reads else AUTO)


def _dtypes(state: RecurrentState, settings: ResolvedSettings, recurrent: str) -> tuple[DType, ...]:
    named = settings.mamba_cache_dtype
    first = settings.dtype if named == AUTO else DType.from_name(named)
    match state:
        case ShortConvState() | LinearAttentionState():
            return (first,)
        case DeltaAttentionState():
            return first, _delta_attention_dtype(recurrent)
        case _:
            return first, first if recurrent == AUTO else DType.from_name(recurrent)


def _delta_attention_dtype(name: str) -> DType:
    if name not in (AUTO, "float32", "bfloat16"):
        raise model_refusal(
            "ValueError",
            f"KDA recurrent state supports only auto, float32, and bfloat16; got {name}",
        )
    return DType.FLOAT32 if name == AUTO else DType.from_name(name)
