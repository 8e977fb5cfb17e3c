"""Attention: merged projections, the output projection, and what stands beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import Flag, LayerFacts, Part, never, nothing
from kvplan_cli.memory.weights.norms import Norm, QkNorm, qk_widths
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.shape import AttentionLayer
from kvplan_cli.values import dataclass

# Every attention layer keeps four fp32 factors for its cache.
# Source: vLLM 0.33.0 ``layers/attention/attention.py:set_default_quant_scales``.
CACHE_FACTORS: Final = 4


def cache_factors(site: Site) -> Tensors:
    """The factors alone, of a layer that reads no scales from the checkpoint."""
    return (Tensor("cache_scale", 1, FLOAT32),) * CACHE_FACTORS


def cache_scales(site: Site) -> Tensors:
    """The scales of one attention layer's cache: its own, and the checkpoint's."""
    return (*site.scheme.attention_scales(site.itemsize), *cache_factors(site))


QkNormOf = Callable[[HfConfig], QkNorm]


def qk_norm(kind: QkNorm, flag: Flag) -> QkNormOf:
    """The kind where the config asks for it, none elsewhere."""
    return lambda config: kind if flag(config) else QkNorm.NONE


def no_qk_norm(config: HfConfig) -> QkNorm:
    return QkNorm.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """How an architecture's attention differs from Llama's. Callable as a layer's part.

    path: the module's name in the layer. qkv_bias, output_bias: of the projections.
    qk_norm: norms of queries and keys, each with ``norm``'s vectors. gate: output rows beside
    queries, keys and values. doubled: each query comes with a gate of its size. sinks: one
    learned logit a head of this rank. beside: further tensors. inputs: of the merged
    projections, in hidden sizes. plain_output: the output projection is never quantized.
    whole_output: every rank holds it whole. single: queries, keys and values are one matrix in
    the checkpoint as well. scales: of the layer's cache.
    """

    path: str = "self_attn"
    qkv_bias: Flag = never
    output_bias: Flag = never
    qk_norm: QkNormOf = no_qk_norm
    norm: Norm = Norm.ONE
    gate: Callable[[AttentionLayer], int] | None = None
    doubled: Flag = never
    sinks: Callable[[AttentionLayer, HfConfig], bool] | None = None
    beside: Part = nothing
    inputs: int = 1
    plain_output: bool = False
    whole_output: bool = False
    single: bool = False
    scales: Callable[[Site], Tensors] = cache_scales

    def __call__(self, facts: LayerFacts) -> Tensors:
        layer, config = facts.attention, facts.config
        site = facts.site.at(self.path)
        return (
            *self._projections(site, facts),
            *self._qk_norms(site, layer, self.qk_norm(config)),
            *self._sinks(site, layer, config),
            *self.beside(facts),
            *self.scales(site),
        )

    def _projections(self, site: Site, facts: LayerFacts) -> Tensors:
        layer, config = facts.attention, facts.config
        shares_cache = layer.kv_sharing_target is not None
        heads = layer.num_attention_heads
        if shares_cache and self._only_queries:
            queries = site.column(
                "q_proj", facts.hidden_size, heads * layer.head_size, bias=self.qkv_bias(config)
            )
        else:
            queries = site.qkv(
                "qkv_proj",
                self.inputs * facts.hidden_size,
                num_heads=2 * heads if self.doubled(config) else heads,
                num_kv_heads=layer.num_kv_heads,
                head_size=layer.head_size,
                head_size_v=layer.head_size_v,
                bias=self.qkv_bias(config),
                gates=0 if self.gate is None else self.gate(layer),
                single=self.single,
            )
        if self.plain_output:
            site = site.unquantized()
        if self.whole_output:
            site = site.replicated_site()
        bias = self.output_bias(config)
        return queries + site.row("o_proj", heads * layer.head_size_v, facts.hidden_size, bias=bias)

    @property
    def _only_queries(self) -> bool:
        return False

    def _qk_norms(self, site: Site, layer: AttentionLayer, kind: QkNorm) -> Tensors:
        heads, kv_heads = layer.num_attention_heads, layer.num_kv_heads
        widths = qk_widths(kind, site, heads, kv_heads, layer.head_size)
        if layer.kv_sharing_target is not None and self._only_queries:
            widths = widths[:1]
        return tuple(t for width in widths for t in self.norm.at(site, width, "qk_norm"))

    def _sinks(self, site: Site, layer: AttentionLayer, config: HfConfig) -> Tensors:
        if self.sinks is None or not self.sinks(layer, config):
            return ()
        return site.vector("sinks", site.share(layer.num_attention_heads))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOnlySharing(Attention):
    """Layers that use another's cache have no key and value projections."""

    @property
    def _only_queries(self) -> bool:
        return True


LLAMA_ATTENTION: Final = Attention()
