"""What one rank keeps of a recurrent state, and which sizes cannot be shared out.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/mamba/mamba_utils.py`` and the ``__init__`` of
``mamba_mixer.py``, ``mamba_mixer2.py``, ``short_conv.py`` and ``gdn/*.py`` beside it.
"""

from __future__ import annotations

from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.models.recurrent import (
    DeltaAttentionState,
    GatedDeltaState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
    RecurrentState,
    ShortConvState,
)

Shapes = tuple[tuple[int, ...], ...]


def rank_shapes(
    state: RecurrentState, tensor_parallel_size: int, num_speculative_tokens: int = 0
) -> Shapes:
    """Shapes in elements of the convolution window and, where there is one, the state.

    num_speculative_tokens: the window keeps that many more inputs, to step back over.
    Raises: EngineRefusalError where a size cannot be shared out.
    """
    match state:
        case Mamba1State():
            return _mamba1(state, tensor_parallel_size)
        case Mamba2State():
            return _mamba2(state, tensor_parallel_size, num_speculative_tokens)
        case GatedDeltaState():
            return _gated_delta(state, tensor_parallel_size, num_speculative_tokens)
        case DeltaAttentionState():
            return _delta_attention(state, tensor_parallel_size, num_speculative_tokens)
        case LinearAttentionState():
            return _linear_attention(state, tensor_parallel_size)
        case ShortConvState():
            dim = state.dim if state.embeds else divided(state.dim, tensor_parallel_size)
            return ((_window(state.conv_kernel, num_speculative_tokens), dim),)


def divided(size: int, ranks: int) -> int:
    """A rank's share. Raises: EngineRefusalError where there is a rest."""
    if size % ranks:
        raise model_refusal("AssertionError", f"{size} is not divisible by {ranks}")
    return size // ranks


def _window(conv_kernel: int, num_speculative_tokens: int = 0) -> int:
    return conv_kernel - 1 + num_speculative_tokens


def _mamba1(state: Mamba1State, ranks: int) -> Shapes:
    inner = divided(state.intermediate_size, ranks)
    return (_window(state.conv_kernel), inner), (inner, state.state_size)


def _mamba2(state: Mamba2State, ranks: int, num_speculative_tokens: int) -> Shapes:
    """A single group is copied to every rank."""
    if state.num_heads % ranks:
        raise model_refusal("AssertionError", "Tensor parallel world size must divide num heads.")
    if state.n_groups % ranks and state.n_groups != 1:
        raise model_refusal(
            "AssertionError",
            "If tensor parallel world size does not divide num_groups, then num_groups must "
            "equal 1.",
        )
    groups = ranks if state.n_groups % ranks else state.n_groups
    channels = state.intermediate_size + 2 * groups * state.state_size
    window = (
        _window(state.conv_kernel, num_speculative_tokens),
        divided(channels, ranks),
    )
    return window, (state.num_heads // ranks, state.head_dim, state.state_size)


def _gated_delta(state: GatedDeltaState, ranks: int, num_speculative_tokens: int) -> Shapes:
    keys, values = state.head_k_dim * state.num_k_heads, state.head_v_dim * state.num_v_heads
    window = (
        _window(state.conv_kernel, num_speculative_tokens),
        divided(2 * keys + values, ranks),
    )
    divided(keys, ranks)
    return window, (divided(state.num_v_heads, ranks), state.head_v_dim, state.head_k_dim)


def _delta_attention(state: DeltaAttentionState, ranks: int, num_speculative_tokens: int) -> Shapes:
    heads = _shared_heads(state.num_heads, ranks)
    window = (
        _window(state.conv_kernel, num_speculative_tokens),
        3 * heads * state.head_dim,
    )
    return window, (heads, state.head_dim, state.head_dim)


def _linear_attention(state: LinearAttentionState, ranks: int) -> Shapes:
    heads = _shared_heads(state.num_heads, ranks)
    if ranks > state.norm_groups:
        raise model_refusal(
            "AssertionError", "tp_size must be <= group_norm_size for local rms norm"
        )
    if state.norm_groups % ranks:
        raise model_refusal("AssertionError", "group_norm_size must be divisible by tp_size")
    return ((heads, state.head_dim, state.head_dim),)


def _shared_heads(heads: int, ranks: int) -> int:
    if heads % ranks:
        # The layer asserts without words.
        raise model_refusal("AssertionError", "")
    return heads // ranks
