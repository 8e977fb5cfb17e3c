"""Dense feed-forward layers."""

from __future__ import annotations

from typing import Final

from kvplan_cli.memory.weights.layers import INTERMEDIATE, Flag, LayerFacts, Size, never
from kvplan_cli.memory.weights.ranks import Whole, sharded
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """Gate and up projection, and a down projection. merged: the first two are one matrix.
    single: they are so in the checkpoint as well. whole: where each rank holds all of it.
    """

    path: str = "mlp"
    intermediate: Size = INTERMEDIATE
    bias: Flag = never
    merged: bool = True
    single: bool = False
    whole: Whole = sharded

    def __call__(self, facts: LayerFacts) -> Tensors:
        site, hidden = facts.site.at(self.path), facts.hidden_size
        inner, bias = self.intermediate(facts.config), self.bias(facts.config)
        if self.whole(site):
            site = site.replicated_site()
        if self.single:
            up = site.column("gate_up_proj", hidden, 2 * inner, bias=bias)
        elif self.merged:
            up = site.column("gate_up_proj", hidden, (inner, inner), bias=bias)
        else:
            up = site.column("gate_proj", hidden, inner, bias=bias)
            up += site.column("up_proj", hidden, inner, bias=bias)
        return up + site.row("down_proj", inner, hidden, bias=bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """An up and a down projection without a gate. sharded: over the ranks."""

    path: str = "mlp"
    intermediate: Size = INTERMEDIATE
    bias: Flag = never
    sharded: bool = True

    def __call__(self, facts: LayerFacts) -> Tensors:
        site, hidden = facts.site.at(self.path), facts.hidden_size
        inner, bias = self.intermediate(facts.config), self.bias(facts.config)
        if not self.sharded:
            site = site.replicated_site()
        return (
            *site.column("up_proj", hidden, inner, bias=bias),
            *site.row("down_proj", inner, hidden, bias=bias),
        )


GATED: Final = Gated()
