"""Integers of a few bits, packed in words: GPTQ, AWQ and compressed-tensors.

Source: vLLM 0.33.0 ``quantization/{auto_gptq,auto_awq}.py``, ``compressed_tensors`` and
``kernels/linear/mixed_precision/machete.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.memory.weights.quantization import ExpertShape, LinearShape, Scheme, expert_bias
from kvplan_cli.memory.weights.tensors import INT32, INT64, Tensor, Tensors
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass

_MACHETE_ROWS: Final = 128
_MACHETE_COLUMNS: Final = 64
_MACHETE_GROUPS: Final = (None, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedInt(Scheme):
    """Integers of some bits packed in int32 words, a scale in the model dtype for each group.

    bits: of a weight. group: input columns that share a scale, None for the whole row.
    zero_points: packed like the weights, one a group and row. subtracts: kernels use them.
    shapes: each packed matrix comes with its unpacked shape, as compressed-tensors stores it.
    machete: that kernel serves linear layers that it has tiles for. unpacked: the zero points
    are in its form, ready scaled in the model dtype.
    """

    bits: int
    group: int | None
    zero_points: bool
    subtracts: bool = False
    shapes: bool = False
    machete: bool = False
    unpacked: bool = False

    @property
    def exact(self) -> bool:
        # Kernels repack and pad these weights, and keep workspaces of their own.
        return False

    def repacked(self) -> Scheme:
        return replace(self, unpacked=self.machete and self.subtracts)

    def _tiled(self, rows: int, columns: int) -> bool:
        """Whether Machete has tiles for the matrix.

        Source: vLLM 0.33.0 ``quantization/utils/machete_utils.py``.
        """
        fits = rows % _MACHETE_ROWS == 0 and columns % _MACHETE_COLUMNS == 0
        return fits and self.group in _MACHETE_GROUPS

    def _packed(self, name: str, rows: int, columns: int, itemsize: int) -> Tensors:
        per_word = 8 * INT32 // self.bits
        groups = 1 if self.group is None else cdiv(columns, self.group)
        tensors: Tensors = (
            Tensor(f"{name}.qweight", rows * cdiv(columns, per_word), INT32),
            Tensor(f"{name}.scales", rows * groups, itemsize),
        )
        if self.zero_points:
            tensors += (Tensor(f"{name}.qzeros", cdiv(rows, per_word) * groups, INT32),)
        return tensors

    def quantized_linear(self, shape: LinearShape, itemsize: int) -> Tensors:
        own = (Tensor(f"{shape.name}.weight_shape", 2, INT64),) if self.shapes else ()
        packed = self._packed(shape.name, shape.rows, shape.inputs, itemsize)
        if self.unpacked and self._tiled(shape.rows, shape.inputs):
            weight, scales, _ = packed
            packed = (weight, scales, scales._replace(name=f"{shape.name}.qzeros"))
        return own + packed

    def quantized_experts(self, shape: ExpertShape, itemsize: int) -> Tensors:
        rows = shape.experts * shape.merged * shape.intermediate_size
        w2_rows = shape.experts * shape.hidden_size
        return (
            *self._packed("w13", rows, shape.hidden_size, itemsize),
            *self._packed("w2", w2_rows, shape.intermediate_size, itemsize),
            *((Tensor("weight_shape", 2 * shape.experts, itemsize),) * 2 if self.shapes else ()),
            *expert_bias(shape, itemsize),
        )
