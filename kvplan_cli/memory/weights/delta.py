"""Gated delta mixers: Qwen, OLMo and Kimi.

Source: vLLM 0.33.0 ``layers/mamba/gdn/*.py`` and ``vllm/models/kimi_k3/nvidia/kda.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.memory.weights.layers import LayerFacts
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.states import convolution, missing_state
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.recurrent import DeltaAttentionState, GatedDeltaState
from kvplan_cli.units import round_up
from kvplan_cli.values import dataclass

_ROW_MULTIPLE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDelta:
    """The mixer of Qwen3-Next and Qwen3.5. A layer's part.

    separate: two projections of a number a head instead of one, and decays in the model dtype
    (OLMo hybrid).
    """

    path: str = "linear_attn"
    separate: bool = False

    def __call__(self, facts: LayerFacts) -> Tensors:
        state, hidden = facts.state, facts.hidden_size
        if not isinstance(state, GatedDeltaState):
            raise missing_state(facts, "delta")
        site = facts.site.at(self.path)
        keys = state.num_k_heads * state.head_k_dim
        values = state.num_v_heads * state.head_v_dim
        heads = state.num_v_heads
        held = site.share(heads)
        merged = "in_proj_qkvg" if self.separate else "in_proj_qkvz"
        return (
            *convolution(site, 2 * keys + values, state.conv_kernel, bias=False),
            *site.column(merged, hidden, (keys, keys, values, values)),
            *self._per_head(site, hidden, heads),
            *site.row("o_proj" if self.separate else "out_proj", values, hidden),
            *site.vector("dt_bias", held),
            *site.vector("A_log", held, site.itemsize if self.separate else FLOAT32),
            *site.vector("norm", state.head_v_dim),
        )

    def _per_head(self, site: Site, hidden: int, heads: int) -> Tensors:
        if not self.separate:
            return site.column("in_proj_ba", hidden, (heads, heads))
        return (*site.column("b_proj", hidden, heads), *site.column("a_proj", hidden, heads))


def kimi_delta(facts: LayerFacts) -> Tensors:
    """Kimi's delta attention; a full-rank gate stands in the first projection (K3)."""
    state, hidden = facts.state, facts.hidden_size
    if not isinstance(state, DeltaAttentionState):
        raise missing_state(facts, "delta")
    site = facts.site.at("self_attn")
    wide, size = state.num_heads * state.head_dim, state.head_dim
    held, heads = site.share(wide), site.share(state.num_heads)
    return (
        *_kimi_projections(site, hidden, state),
        *site.column("f_b_proj", size, wide),
        *site.vector("conv1d.weight", 3 * held * state.conv_kernel, FLOAT32),
        *site.row("o_proj", wide, hidden),
        *site.vector("dt_bias", held, FLOAT32),
        *site.vector("A_log", heads, FLOAT32),
        *site.vector("o_norm", size),
        *(_decode_copies(site, state) if _decodes_natively(site, state) else ()),
    )


def _kimi_projections(site: Site, hidden: int, state: DeltaAttentionState) -> Tensors:
    size, heads = state.head_dim, site.share(state.num_heads)
    held = heads * size
    whole = site.replicated_site()
    if state.own_backend:
        rows = round_up(4 * held + size + heads, _ROW_MULTIPLE)
        parts = (held, held, held, held, size, rows - 4 * held - size)
        return whole.column("in_proj_qkvgfab", hidden, parts)
    return (
        *whole.column("in_proj_qkvgfab", hidden, (held, held, held, heads, size)),
        *site.replicated("g_a_proj", hidden, size),
        *site.column("g_b_proj", size, state.num_heads * size),
    )


# Heads on a rank, and major capabilities, that the fused decoding kernel is built for.
_KERNEL_HEADS: Final = frozenset({12, 24, 48, 96})
_KERNEL_CARDS: Final = frozenset({9, 10, 12})


def _decodes_natively(site: Site, state: DeltaAttentionState) -> bool:
    heads = site.share(state.num_heads)
    fits = (
        site.fuses_decode
        and state.head_dim == 128
        and state.conv_kernel == 4
        and heads in _KERNEL_HEADS
    )
    return fits and site.capability[0] in _KERNEL_CARDS


def _decode_copies(site: Site, state: DeltaAttentionState) -> Tensors:
    """Copies that the decoding kernel reads."""
    held = site.share(state.num_heads) * state.head_dim
    return (
        *site.vector("decode_conv1d_weight", 3 * held * state.conv_kernel, FLOAT32),
        *site.vector("decode_norm_weight", state.head_dim, FLOAT32),
    )
