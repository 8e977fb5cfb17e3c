"""Mixtures of experts: router, routed experts, shared experts.

Source: vLLM 0.33.0 ``layers/fused_moe/{layer,routed_experts}.py`` and the model files.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import (
    Flag,
    LayerFacts,
    Size,
    always,
    never,
    sized,
)
from kvplan_cli.memory.weights.quantization import ExpertShape
from kvplan_cli.memory.weights.ranks import Site, Whole, shard, sharded
from kvplan_cli.memory.weights.tensors import FLOAT32, INT32, Tensor, Tensors
from kvplan_cli.values import dataclass

_COUNT: Final[Size] = sized("num_experts")
_SMALL: Final[Size] = sized("moe_intermediate_size")


# What TensorRT's kernel for unquantized experts computes between the two products.
_TENSORRT_ACTIVATIONS: Final = frozenset({"silu", "swish", "relu2"})


def fits_tensorrt(config: HfConfig) -> bool:
    """Whether TensorRT's kernel serves unquantized experts of this kind, on cards that have it.

    Source: vLLM 0.33.0 ``fused_moe/experts/trtllm_bf16_moe.py``.
    """
    for key in ("hidden_act", "hidden_activation", "mlp_hidden_act"):
        name = config.raw(key)
        if isinstance(name, str) and name not in _TENSORRT_ACTIVATIONS:
            return False
    sigmoid = config.raw("scoring_func") in ("sigmoid", "sqrtsoftplus")
    return sigmoid or config.raw("norm_topk_prob") is not False


def routed(site: Site, shape: ExpertShape, *, tensorrt: bool = False) -> Tensors:
    """The routed experts of one layer; ``shape`` gives the whole model's numbers.

    tensorrt: TensorRT's kernel serves them, unquantized, where the card has it.
    """
    on_rank = shape._replace(
        experts=site.experts_held(shape.experts),
        intermediate_size=shard(shape.intermediate_size, site.expert_shards),
        multiple=site.expert_multiple if tensorrt else 1,
    )
    tensors = site.scheme.experts(on_rank, site.itemsize, site.prefix)
    if site.expert_parallel_size > 1:
        tensors += (Tensor("expert_map", shape.experts, INT32),)
    return tensors + _room(site, on_rank)


def _room(site: Site, held: ExpertShape) -> Tensors:
    """The room for adapters of one layer's experts.

    Source: vLLM 0.33.0 ``lora/layers/fused_moe.py``.
    """
    adapters = site.adapters
    if adapters is None:
        return ()
    ranks = site.expert_shards if adapters.fully_sharded else 1
    return adapters.experts(
        held,
        down_rank=shard(adapters.rank, ranks),
        hidden_share=shard(held.hidden_size, ranks),
    )


def no_size(config: HfConfig) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A layer's mixture.

    count: routed experts. intermediate: their inner size. shared: inner size of the shared
    experts, 0 for none. router_fp32: the router is kept in fp32. router_bias: of the router's
    matrix. linear_router: it is quantized as other linears are.
    correction: an fp32 bias a expert for choosing. shared_gate: a row that weighs the
    shared expert. bias: of the experts. merged_shared: gate and up of the shared expert are
    one matrix. gated: experts have a gate beside their up projection. latent: the width that
    routed experts work in, 0 for the hidden size. shared_path: the shared expert's module.
    tensorrt: see ``fits_tensorrt``. least_shard: the least of an expert's inner size that a
    rank holds, zeros if need be. whole_shared: where each rank holds the shared expert whole.
    """

    path: str = "mlp"
    count: Size = _COUNT
    intermediate: Size = _SMALL
    shared: Size = no_size
    router_fp32: Flag = never
    router_bias: bool = False
    correction: Flag = never
    shared_gate: bool = False
    bias: bool = False
    merged_shared: Flag = always
    gated: bool = True
    latent: Size = no_size
    shared_path: str = "shared_experts"
    tensorrt: Flag = fits_tensorrt
    least_shard: int = 1
    linear_router: bool = False
    whole_shared: Whole = sharded

    def __call__(self, facts: LayerFacts) -> Tensors:
        site, config, hidden = facts.site.at(self.path), facts.config, facts.hidden_size
        count = self.count(config)
        width = self.latent(config) or hidden
        merged = 2 if self.gated else 1
        inner = max(self.intermediate(config), self.least_shard * site.expert_shards)
        if site.expert_shards == 1:
            inner = self.intermediate(config)
        shape = ExpertShape(count, width, inner, self.bias, merged)
        return (
            *self._router(site, facts, count),
            *self._transforms(site, hidden, width),
            *routed(site.at("experts"), shape, tensorrt=self.tensorrt(config)),
            *self._shared(self._beside(site).at(self.shared_path), facts),
        )

    def _beside(self, site: Site) -> Site:
        return site.replicated_site() if self.whole_shared(site) else site

    def _router(self, site: Site, facts: LayerFacts, count: int) -> Tensors:
        fp32 = self.router_fp32(facts.config)
        if self.linear_router:
            return site.replicated("gate", facts.hidden_size, count)
        router = site.plain("gate", facts.hidden_size, count, bias=self.router_bias, fp32=fp32)
        if self.correction(facts.config):
            router += site.vector("e_score_correction_bias", count, FLOAT32)
        return router

    @staticmethod
    def _transforms(site: Site, hidden: int, width: int) -> Tensors:
        """What leads to the experts' own width and back, whole on every rank."""
        if width == hidden:
            return ()
        return (
            *site.replicated("fc1_latent_proj", hidden, width),
            *site.replicated("fc2_latent_proj", width, hidden),
        )

    def _shared(self, site: Site, facts: LayerFacts) -> Tensors:
        inner, hidden = self.shared(facts.config), facts.hidden_size
        if not inner:
            return ()
        if not self.gated:
            up = site.column("up_proj", hidden, inner)
        elif self.merged_shared(facts.config):
            up = site.column("gate_up_proj", hidden, (inner, inner))
        else:
            up = site.column("gate_proj", hidden, inner) + site.column("up_proj", hidden, inner)
        gate = site.plain("shared_expert_gate", hidden, 1) if self.shared_gate else ()
        return (*up, *site.row("down_proj", inner, hidden), *gate)
