"""What the engine sets aside for LoRA adapters beside a linear.

Source: vLLM 0.33.0 ``lora/layers/*.py:create_lora_weights``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.memory.weights.tensors import INT64, Tensor, Tensors
from kvplan_cli.values import dataclass

# Of a head that is adapted.
LARGEST_VOCABULARY: Final = 258_048
_DOWN: Final = "lora_a_stacked"
_UP: Final = "lora_b_stacked"
_MAPPING: Final = "sharded_to_full_mapping_gpu"
_NAMES: Final = frozenset({_DOWN, _UP, _MAPPING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Room for adapters on one rank.

    slots: adapters in a batch. rank: the highest. itemsize: bytes an element. single: merged
    linears that take one pair of matrices, others take one for each part. embedding, head:
    whether the vocabulary's modules are adapted.
    """

    slots: int
    rank: int
    itemsize: int
    single: frozenset[str] = frozenset()
    embedding: bool = False
    head: bool = False

    def linear(self, name: str, inputs: int, outputs: tuple[int, ...]) -> Tensors:
        """Beside a linear of so many inputs and outputs on this rank."""
        if name in self.single:
            outputs = (sum(outputs),)
        return tuple(
            tensor
            for size in outputs
            for tensor in (self._room(_DOWN, inputs), self._room(_UP, size))
        )

    def of_embedding(self, rows: int, columns: int) -> Tensors:
        """Beside the embedding: every rank holds all rows."""
        if not self.embedding:
            return ()
        return self._room(_DOWN, rows), self._room(_UP, columns)

    def of_head(self, rows: int, columns: int, ranks: int) -> Tensors:
        """Beside the head: every rank holds all rows, and where each stands if shared out."""
        if not self.head:
            return ()
        if rows > LARGEST_VOCABULARY:
            raise EngineRefusalError(
                stage="model_error",
                error_type="ValueError",
                message=f"When using LoRA, vocab size must be <= {LARGEST_VOCABULARY}",
                way_out="drop --enable-lora",
            )
        mapping = (Tensor(_MAPPING, rows, INT64),) if ranks > 1 else ()
        return (self._room(_DOWN, columns), self._room(_UP, rows), *mapping)

    def _room(self, name: str, size: int) -> Tensor:
        return Tensor(name, self.slots * self.rank * size, self.itemsize)


def adapters_only(tensors: Iterable[Tensor]) -> Tensors:
    """Those of the tensors that are room for adapters."""
    return tuple(tensor for tensor in tensors if tensor.name in _NAMES)
