"""Normalization vectors: small, and never sharded but where a row says so."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kvplan_cli.memory.weights.layers import LayerFacts, Part
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors


class Norm(Enum):
    """What a norm holds, in vectors of its width."""

    NONE = 0
    ONE = 1
    WITH_BIAS = 2

    def at(self, site: Site, width: int, name: str = "norm") -> Tensors:
        """Its tensors over ``width`` elements."""
        names = (f"{name}.weight", f"{name}.bias")[: self.value]
        return tuple(t for each in names for t in site.vector(each, width))


def layer_norms(count: int, norm: Norm = Norm.ONE) -> Part:
    """``count`` norms over the hidden size."""

    def tensors(facts: LayerFacts) -> Tensors:
        return norm.at(facts.site, facts.hidden_size) * count

    return tensors


class QkNorm(Enum):
    """Norms of queries and keys.

    HEAD: over one head, shared by all. WHOLE: over all heads together, on every rank.
    SHARD: over this rank's heads. EACH: one for every head of this rank.
    """

    NONE = "none"
    HEAD = "head"
    WHOLE = "whole"
    SHARD = "shard"
    EACH = "each"


def qk_widths(
    kind: QkNorm, site: Site, num_heads: int, num_kv_heads: int, head_size: int
) -> tuple[int, ...]:
    """Elements of the query's and the key's norm on this rank."""
    match kind:
        case QkNorm.NONE:
            return ()
        case QkNorm.HEAD:
            return (head_size, head_size)
        case QkNorm.WHOLE:
            return (num_heads * head_size, num_kv_heads * head_size)
        case QkNorm.SHARD | QkNorm.EACH:
            return (
                site.share(num_heads) * head_size,
                site.kv_heads(num_kv_heads) * head_size,
            )


TWO_NORMS: Final = layer_norms(2)
