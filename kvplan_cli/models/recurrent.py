"""Dimensions of recurrent states, as architectures declare them for the whole model.

Numbers are elements, heads and taps before tensor parallelism; what a rank keeps of them is
``kvplan_cli/backends/states``. Source: vLLM 0.33.0
``vllm/model_executor/layers/mamba/mamba_utils.py:MambaStateShapeCalculator``.
"""

from __future__ import annotations

from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba1State:
    """A convolution window and a state of ``state_size`` for each inner channel."""

    intermediate_size: int
    state_size: int
    conv_kernel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2State:
    """A convolution window over channels and groups, and a state for each head."""

    intermediate_size: int
    n_groups: int
    num_heads: int
    head_dim: int
    state_size: int
    conv_kernel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaState:
    """A convolution window over queries, keys and values, and a matrix for each value head.

    exports_checkpoints: the layer class can hand out states from inside a prefill, where the
    card's prefill kernel can.
    """

    num_k_heads: int
    num_v_heads: int
    head_k_dim: int
    head_v_dim: int
    conv_kernel: int
    exports_checkpoints: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConvState:
    """A convolution window over ``dim`` channels, nothing else.

    embeds: it is that of an n-gram embedding (Qwen4 Exp), of which each rank has all channels,
    and which hands out states from inside a prefill.
    """

    dim: int
    conv_kernel: int
    embeds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAttentionState:
    """Kimi delta attention: as a gated delta state, with as many key as value heads.

    own_backend: the layer class brings a backend of its own (Kimi K3). layer_reads_dtype,
    model_reads_dtype: whether the layer class, and the model class that blocks are sized by,
    ask for ``--mamba-ssm-cache-dtype``. exports_checkpoints: the layer class can hand out
    states from inside a prefill, where the card's kernel can; it needs a bounded gate.
    """

    num_heads: int
    head_dim: int
    conv_kernel: int
    own_backend: bool = False
    layer_reads_dtype: bool = True
    model_reads_dtype: bool = True
    exports_checkpoints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttentionState:
    """A matrix for each head, nothing else.

    norm_groups: parts that the layer's output is normalized in, each on one rank.
    """

    num_heads: int
    head_dim: int
    norm_groups: int


RecurrentState = (
    Mamba1State
    | Mamba2State
    | GatedDeltaState
    | ShortConvState
    | DeltaAttentionState
    | LinearAttentionState
)
