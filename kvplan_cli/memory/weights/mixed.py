"""Checkpoints whose layers are quantized in different formats."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from kvplan_cli.memory.weights.ignored import MERGED, inner_path
from kvplan_cli.memory.weights.quantization import (
    ExpertShape,
    LinearShape,
    Scheme,
    expert_bias,
    four_cache_scales,
    plain_experts,
    plain_linear,
    unquantized_experts,
)
from kvplan_cli.memory.weights.tensors import BYTE, Tensor, Tensors
from kvplan_cli.values import dataclass

_PARTS: Final = {
    **MERGED,
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z", "in_proj_qkvz"),
    "in_proj_ba": ("in_proj_b", "in_proj_a", "in_proj_ba"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitScheme(Scheme):
    """One scheme for linear layers, another for routed experts."""

    linears: Scheme
    routed: Scheme

    @property
    def exact(self) -> bool:
        return self.linears.exact and self.routed.exact

    @property
    def linear_block(self) -> tuple[int, int] | None:
        return self.linears.linear_block

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        return self.linears.quantized_linear(shape, itemsize)

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        return self.routed.quantized_experts(shape, itemsize)


@dataclass(frozen=True, slots=True, kw_only=True)
class MxFp8(Scheme):
    """One byte an element and a scale byte for each 32."""

    group: int = 32

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        scales = shape.rows * (shape.inputs // self.group)
        return (
            *plain_linear(shape, BYTE),
            Tensor(f"{shape.name}.weight_scale", scales, BYTE),
        )

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        elements = shape.experts * shape.hidden_size * shape.intermediate_size
        return (
            *plain_experts(shape, BYTE),
            Tensor("weight_scale", (shape.merged + 1) * elements // self.group, BYTE),
            *expert_bias(shape, itemsize),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Formats by module path, and by each parent of one."""

    exact: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, formats: dict[str, str]) -> Formats:
        exact = {inner_path(name): value for name, value in formats.items()}
        parents: dict[str, str] = {}
        for name, value in exact.items():
            head = name.rpartition(".")[0]
            while head:
                parents.setdefault(head, value)
                head = head.rpartition(".")[0]
        return cls(exact=exact, parents=parents)

    def linear(self, path: str) -> str | None:
        """The format of a linear layer, found by its own name or that of a merged part."""
        path = inner_path(path)
        head, _, last = path.rpartition(".")
        names = [path, *(f"{head}.{part}" for part in _PARTS.get(last, ()))]
        return next((self.exact[name] for name in names if name in self.exact), None)

    def experts(self, path: str) -> str | None:
        """The format of routed experts, found by that of any of them."""
        path = inner_path(path)
        own = self.exact.get(path) or self.parents.get(path)
        return own or self.parents.get(path.rpartition(".")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed(Scheme):
    """Each layer in the format that is listed for it; others stay as they are.

    caches: the checkpoint has scales of the KV cache.
    """

    formats: Formats
    schemes: tuple[tuple[str, Scheme], ...]
    caches: bool = False

    def cache_scales(self, itemsize: int) -> Tensors:
        return four_cache_scales(itemsize) if self.caches else ()

    def linear(self, shape: LinearShape, itemsize: int, path: str) -> Tensors:
        chosen = None if self.ignored.matches(path) else self.formats.linear(path)
        if chosen is None:
            return plain_linear(shape, itemsize)
        return dict(self.schemes)[chosen].quantized_linear(shape, itemsize)

    def head(self, shape: LinearShape, itemsize: int) -> Tensors:
        return self.linear(shape, itemsize, shape.name)

    def experts(self, shape: ExpertShape, itemsize: int, path: str) -> Tensors:
        chosen = None if self.ignored.matches_experts(path) else self.formats.experts(path)
        if chosen is None:
            return unquantized_experts(shape, itemsize)
        return dict(self.schemes)[chosen].quantized_experts(shape, itemsize)
