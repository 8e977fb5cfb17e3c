"""Mixers that keep a recurrent state: Mamba 1 and 2, short convolutions.

Source: vLLM 0.33.0 ``layers/mamba/{mamba_mixer,mamba_mixer2,short_conv}.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import Flag, LayerFacts, Size, always
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.recurrent import Mamba1State, Mamba2State, ShortConvState
from kvplan_cli.values import dataclass

_MANY: Final = 2


def convolution(site: Site, channels: int | tuple[int, ...], taps: int, *, bias: bool) -> Tensors:
    """A depthwise convolution whose channels are shared out, several parts merged in one; never
    quantized."""
    return site.unquantized().column("conv1d", taps, channels, bias=bias)


def missing_state(facts: LayerFacts, kind: str) -> Exception:
    return unknown(f"layer {facts.index} keeps no {kind} state", facts.config.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba1:
    """The first Mamba's mixer, which the engine never quantizes. A layer's part.

    rank: of the step's projection. conv_bias, bias: of the convolution, of the projections.
    norms: step, B and C are normalized with weights of their own.
    """

    path: str
    rank: Size
    conv_bias: Flag
    bias: Flag
    norms: bool = False

    def __call__(self, facts: LayerFacts) -> Tensors:
        state, config, hidden = facts.state, facts.config, facts.hidden_size
        if not isinstance(state, Mamba1State):
            raise missing_state(facts, "Mamba")
        site = facts.site.at(self.path).unquantized()
        inner, states, rank = state.intermediate_size, state.state_size, self.rank(config)
        held, bias = site.share(inner), self.bias(config)
        widths = (rank, states, states) if self.norms else ()
        return (
            *convolution(site, inner, state.conv_kernel, bias=self.conv_bias(config)),
            *site.column("in_proj", hidden, (inner,) * _MANY, bias=bias),
            *site.row("x_proj", inner, rank + _MANY * states),
            *site.column("dt_proj", rank, inner, bias=True),
            *site.row("out_proj", inner, hidden, bias=bias),
            *site.vector("A", held * states, FLOAT32),
            *site.vector("D", held),
            *(tensor for width in widths for tensor in site.vector("layernorm", width)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """The second Mamba's mixer. A layer's part.

    conv_bias, bias: of the convolution, of the projections. norm: the gated output is
    normalized. scaled: a vector scales the first projection's outputs (Falcon-H1).
    """

    path: str
    conv_bias: Flag
    bias: Flag
    norm: Flag = always
    scaled: bool = False

    def __call__(self, facts: LayerFacts) -> Tensors:
        state = facts.state
        if not isinstance(state, Mamba2State):
            raise missing_state(facts, "Mamba 2")
        return self.tensors(facts.site.at(self.path), state, facts.config, facts.hidden_size)

    def tensors(self, site: Site, state: Mamba2State, config: HfConfig, hidden: int) -> Tensors:
        """The mixer's tensors; a single group is copied to every rank."""
        bias, inner = self.bias(config), state.intermediate_size
        groups = site.tensor_parallel_size if state.n_groups == 1 else state.n_groups
        mixed = groups * state.state_size
        parts: tuple[int, ...] = (inner, mixed, mixed)
        held = site.share(sum(parts))
        heads = site.share(state.num_heads)
        outputs: tuple[int, ...] = (inner, inner, mixed, mixed, state.num_heads)
        if state.n_groups % site.tensor_parallel_size:
            outputs, parts = (sum(outputs),), (sum(parts),)
        return (
            *convolution(site, parts, state.conv_kernel, bias=self.conv_bias(config)),
            *site.column("in_proj", hidden, outputs, bias=bias),
            *site.row("out_proj", inner, hidden, bias=bias),
            *site.vector("A", heads, FLOAT32),
            *site.vector("D", heads),
            *site.vector("dt_bias", heads),
            *(site.vector("norm", site.share(inner)) if self.norm(config) else ()),
            *site.vector("conv_weights", held * state.conv_kernel),
            *(site.vector("mup_vector", site.share(sum(outputs))) if self.scaled else ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConv:
    """A gated short convolution (LFM2). A layer's part."""

    path: str
    bias: Flag

    def __call__(self, facts: LayerFacts) -> Tensors:
        state = facts.state
        if not isinstance(state, ShortConvState):
            raise missing_state(facts, "convolution")
        site, bias = facts.site.at(self.path), self.bias(facts.config)
        return short_convolution(site, state.dim, state.conv_kernel, bias=bias)


def short_convolution(site: Site, width: int, kernel: int, *, bias: bool) -> Tensors:
    """A convolution between two gated projections."""
    return (
        *convolution(site, width, kernel, bias=bias),
        *site.column("in_proj", width, (width,) * 3, bias=bias),
        *site.row("out_proj", width, width, bias=bias),
    )
