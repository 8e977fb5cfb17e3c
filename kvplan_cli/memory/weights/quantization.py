"""What a quantized checkpoint's layers hold beside or instead of plain matrices.

Source: vLLM 0.33.0 ``model_executor/layers/quantization``, each scheme's ``create_weights``.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import gcd
from typing import Final, NamedTuple

from kvplan_cli.memory.weights.ignored import Ignored
from kvplan_cli.memory.weights.tensors import BYTE, FLOAT32, Tensor, Tensors
from kvplan_cli.units import cdiv, round_up
from kvplan_cli.values import dataclass

_FINEST_BLOCK: Final = 32
_TRITON_ROW: Final = 128
# The major capability of B200 and its kin, whose expert kernels are other ones.
DATA_CENTRE_BLACKWELL: Final = 10


class LinearShape(NamedTuple):
    """A linear layer on one rank. outputs: rows of each merged part."""

    name: str
    inputs: int
    outputs: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.outputs)


class ExpertShape(NamedTuple):
    """The routed experts of a layer on one rank: gate and up merged in ``w13``, then ``w2``.

    multiple: what the card's kernel for unquantized experts rounds the inner size up to.
    """

    experts: int
    hidden_size: int
    intermediate_size: int
    bias: bool = False
    merged: int = 2
    multiple: int = 1

    def padded(self) -> ExpertShape:
        """As unquantized experts' kernels want the inner size."""
        return self._replace(intermediate_size=round_up(self.intermediate_size, self.multiple))


def expert_bias(shape: ExpertShape, itemsize: int) -> Tensors:
    """One bias an output row of each expert, where the architecture has them."""
    if not shape.bias:
        return ()
    rows = shape.merged * shape.intermediate_size
    return (
        Tensor("w13_bias", shape.experts * rows, itemsize),
        Tensor("w2_bias", shape.experts * shape.hidden_size, itemsize),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """No quantization: plain matrices in the model dtype. The base of the other schemes.

    ignored: the modules that a quantization config leaves as they are.
    scales_latent: latent attention keeps the checkpoint's cache scales too.
    zero_points_of_caches: attention keeps scales in fp32 and zero points, as compressed-tensors
    has them.
    exact: whether the scheme's tensors are known to the byte.
    """

    ignored: Ignored = field(default_factory=Ignored)
    scales_latent: bool = False
    zero_points_of_caches: bool = False

    @property
    def exact(self) -> bool:
        return True

    @property
    def linear_block(self) -> tuple[int, int] | None:
        """Rows and columns of linear layers in fp8 that share a scale, None for other formats."""
        return None

    def repacked(self) -> Scheme:
        """The scheme that describes the weights after their kernels have laid them out anew."""
        return self

    def linear(self, shape: LinearShape, itemsize: int, path: str) -> Tensors:
        """A linear layer's tensors on one rank, its bias not included."""
        if self.ignored.matches(path):
            return plain_linear(shape, itemsize)
        return self.quantized_linear(shape, itemsize)

    def head(self, shape: LinearShape, itemsize: int) -> Tensors:
        """The matrix to the vocabulary, in the model dtype but for mixed formats."""
        return plain_linear(shape, itemsize)

    def experts(self, shape: ExpertShape, itemsize: int, path: str) -> Tensors:
        """The routed experts' tensors on one rank."""
        if self.ignored.matches_experts(path):
            return unquantized_experts(shape, itemsize)
        return self.quantized_experts(shape, itemsize)

    def attention_scales(self, itemsize: int) -> Tensors:
        """What an attention layer holds for the checkpoint's own KV cache scales."""
        if not self.zero_points_of_caches:
            return self.cache_scales(itemsize)
        parts = ("q", "k", "v")
        scales = tuple(Tensor(f"{part}_scale", 1, FLOAT32) for part in parts)
        return scales + tuple(Tensor(f"{part}_zero_point", 1, itemsize) for part in parts)

    def cache_scales(self, itemsize: int) -> Tensors:
        """The scales that most formats have."""
        return ()

    def latent_scales(self, itemsize: int) -> Tensors:
        """The same of a layer with latent attention."""
        return self.cache_scales(itemsize) if self.scales_latent else ()

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        return plain_linear(shape, itemsize)

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        return unquantized_experts(shape, itemsize)


def unquantized_experts(shape: ExpertShape, itemsize: int) -> Tensors:
    padded = shape.padded()
    return plain_experts(padded, itemsize) + expert_bias(padded, itemsize)


def plain_linear(shape: LinearShape, itemsize: int) -> Tensors:
    return (Tensor(f"{shape.name}.weight", shape.inputs * shape.rows, itemsize),)


def plain_experts(shape: ExpertShape, itemsize: int) -> Tensors:
    matrix = shape.experts * shape.hidden_size * shape.intermediate_size
    return (
        Tensor("w13_weight", shape.merged * matrix, itemsize),
        Tensor("w2_weight", matrix, itemsize),
    )


def four_cache_scales(itemsize: int) -> Tensors:
    """A checkpoint's scales of queries, keys, values and probabilities."""
    names = ("q_scale", "k_scale", "v_scale", "prob_scale")
    return tuple(Tensor(name, 1, itemsize) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8(Scheme):
    """One byte an element, scales in fp32.

    block: rows and columns that share a scale; None for one scale a matrix.
    static_inputs: activations are scaled by a stored factor. online: the checkpoint is not
    quantized, the engine does it while it loads. scale_itemsize: bytes of a block's scale.
    """

    block: tuple[int, int] | None = None
    static_inputs: bool = False
    online: bool = False
    scale_itemsize: int = FLOAT32

    @property
    def exact(self) -> bool:
        return not self.online

    @property
    def linear_block(self) -> tuple[int, int] | None:
        return self.block

    def cache_scales(self, itemsize: int) -> Tensors:
        return four_cache_scales(itemsize)

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        weight = plain_linear(shape, BYTE)
        parts = len(shape.outputs)
        if self.block is None:
            scales: Tensors = (Tensor(f"{shape.name}.weight_scale", parts, FLOAT32),)
        else:
            count = cdiv(shape.rows, self.block[0]) * cdiv(shape.inputs, self.block[1])
            name = f"{shape.name}.weight_scale_inv"
            scales = (Tensor(name, count, self.scale_itemsize),)
        if self.static_inputs:
            scales += (Tensor(f"{shape.name}.input_scale", parts, FLOAT32),)
        return weight + scales

    @staticmethod
    def _expert_block(block: tuple[int, int], shape: ExpertShape) -> tuple[int, int]:
        """The block, made finer where the ranks' share of an expert does not hold whole ones.

        Source: vLLM 0.33.0 ``fused_moe/oracle/fp8.py:refine_fp8_moe_block_shape``.
        """
        size = shape.intermediate_size
        if size % block[0] == 0 and size % block[1] == 0:
            return block
        finer = gcd(*block, size, shape.hidden_size)
        return block if finer < _FINEST_BLOCK else (finer, finer)

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        weights = plain_experts(shape, BYTE) + expert_bias(shape, itemsize)
        if self.block is None:
            w13, w2 = shape.merged, 1
        else:
            rows, columns = self._expert_block(self.block, shape)
            w13 = shape.merged * cdiv(shape.intermediate_size, rows)
            w13 *= cdiv(shape.hidden_size, columns)
            w2 = cdiv(shape.hidden_size, rows) * cdiv(shape.intermediate_size, columns)
        scales: Tensors = (
            Tensor("w13_weight_scale", shape.experts * w13, FLOAT32),
            Tensor("w2_weight_scale", shape.experts * w2, FLOAT32),
        )
        if self.static_inputs:
            scales += (
                Tensor("w13_input_scale", shape.experts, FLOAT32),
                Tensor("w2_input_scale", shape.experts, FLOAT32),
            )
        return weights + scales


@dataclass(frozen=True, slots=True, kw_only=True)
class NvFp4(Scheme):
    """Half a byte an element, an fp8 scale for each 16, two fp32 factors a matrix.

    weights_only: activations are not quantized; their factor stays in the model dtype.
    """

    group: int = 16
    weights_only: bool = False

    def cache_scales(self, itemsize: int) -> Tensors:
        return four_cache_scales(itemsize)

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        parts = len(shape.outputs)
        name = shape.name
        return (
            Tensor(f"{name}.weight", shape.rows * shape.inputs // 2, BYTE),
            Tensor(f"{name}.weight_scale", shape.rows * (shape.inputs // self.group), BYTE),
            Tensor(f"{name}.weight_scale_2", parts, FLOAT32),
            Tensor(f"{name}.input_scale", parts, itemsize if self.weights_only else FLOAT32),
        )

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        experts, hidden, size, merged = shape.experts, *shape[1:3], shape.merged
        return (
            Tensor("w13_weight", experts * merged * size * (hidden // 2), BYTE),
            Tensor("w2_weight", experts * hidden * (size // 2), BYTE),
            Tensor("w13_weight_scale", experts * merged * size * (hidden // self.group), BYTE),
            Tensor("w2_weight_scale", experts * hidden * (size // self.group), BYTE),
            Tensor("w13_weight_scale_2", experts * merged, FLOAT32),
            Tensor("w2_weight_scale_2", experts, FLOAT32),
            Tensor("w13_input_scale", experts * merged, FLOAT32),
            Tensor("w2_input_scale", experts, FLOAT32),
            *expert_bias(shape, itemsize),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MxFp4Experts(Scheme):
    """Only the experts: half a byte an element and a scale byte for each 32.

    intermediate_multiple, hidden_multiple: what the kernel of the card rounds them up to.
    row_multiple: bytes of a packed row, which Triton's layout rounds up to on Hopper.
    """

    intermediate_multiple: int = 64
    hidden_multiple: int = 1
    row_multiple: int = 1

    def repacked(self) -> Scheme:
        # Public logs on H100: 13.47 GiB for gpt-oss-20b and 64.38 for 120b, this to the print.
        triton = self.hidden_multiple == 1
        return replace(self, row_multiple=_TRITON_ROW) if triton else self

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        size = round_up(shape.intermediate_size, self.intermediate_multiple)
        hidden = round_up(shape.hidden_size, self.hidden_multiple)
        padded = shape._replace(hidden_size=hidden, intermediate_size=size)
        rows, w2_rows = shape.experts * shape.merged * size, shape.experts * hidden
        return (
            Tensor("w13_weight", rows * round_up(hidden // 2, self.row_multiple), BYTE),
            Tensor("w13_weight_scale", rows * (hidden // 32), BYTE),
            Tensor("w2_weight", w2_rows * round_up(size // 2, self.row_multiple), BYTE),
            Tensor("w2_weight_scale", shape.experts * hidden * (size // 32), BYTE),
            *expert_bias(padded, itemsize),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScaledBytes(Scheme):
    """One byte an element (int8 or fp8) and an fp32 scale a row, as compressed-tensors has it."""

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        scale = Tensor(f"{shape.name}.weight_scale", shape.rows, FLOAT32)
        return (*plain_linear(shape, BYTE), scale)

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        rows = shape.merged * shape.intermediate_size + shape.hidden_size
        return (
            *plain_experts(shape, BYTE),
            Tensor("weight_scale", shape.experts * rows, FLOAT32),
            *expert_bias(shape, itemsize),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nf4(Scheme):
    """bitsandbytes: half a byte an element, an fp32 scale for each 64."""

    group: int = 64

    @property
    def exact(self) -> bool:
        return False

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        elements = shape.rows * shape.inputs
        return (
            Tensor(f"{shape.name}.weight", cdiv(elements, 2), BYTE),
            Tensor(f"{shape.name}.absmax", cdiv(elements, self.group), FLOAT32),
        )

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        elements = (shape.merged + 1) * shape.experts * shape.hidden_size
        elements *= shape.intermediate_size
        return (
            Tensor("experts.weight", cdiv(elements, 2), BYTE),
            Tensor("experts.absmax", cdiv(elements, self.group), FLOAT32),
            *expert_bias(shape, itemsize),
        )
