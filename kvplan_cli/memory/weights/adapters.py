"""What the engine sets aside for LoRA adapters beside a linear.

Source: vLLM 0.33.0 ``lora/layers/*.py:create_lora_weights``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.memory.weights.tensors import BYTE, INT32, INT64, Tensor, Tensors
from kvplan_cli.values import dataclass

# Of a head that is adapted.
LARGEST_VOCABULARY: Final = 258_048
_DOWN: Final = "lora_a_stacked"
_UP: Final = "lora_b_stacked"
_MAPPING: Final = "sharded_to_full_mapping_gpu"
_ENABLED: Final = "adapter_enabled"
_EMBEDDING: Final = "embed_tokens"
# Heads over labels, which adapters may bring whole.
_LABEL_HEADS: Final = frozenset({"score", "classifier"})
_WHOLE: Final = "full_module"
_NAMES: Final = frozenset({_DOWN, _UP, _MAPPING, _ENABLED, _WHOLE})


class ExpertSizes(Protocol):
    """Sizes of one rank's routed experts."""

    @property
    def experts(self) -> int: ...

    @property
    def hidden_size(self) -> int: ...

    @property
    def intermediate_size(self) -> int: ...

    @property
    def merged(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Room for adapters on one rank.

    slots: adapters in a batch. rank: the highest. itemsize: bytes an element. fully_sharded:
    ranks share out both matrices of a pair, not only the one beside the sharded side. single:
    merged linears that take one pair of matrices, others take one for each part. bare: modules
    that take none. embedding, head: whether the vocabulary's modules are adapted. one_up:
    gate and up projection of an expert have one pair.
    """

    slots: int
    rank: int
    itemsize: int
    fully_sharded: bool = False
    single: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    embedding: bool = False
    head: bool = False
    one_up: bool = False

    def linear(
        self, name: str, inputs: int, outputs: tuple[int, ...], *, down_rank: int | None = None
    ) -> Tensors:
        """Beside a linear of so many inputs and outputs on this rank. down_rank: rows of the
        first matrix here, the whole rank by default."""
        if name in self.bare:
            return ()
        if name in self.single:
            outputs = (sum(outputs),)
        rows = self.rank if down_rank is None else down_rank
        return tuple(
            tensor
            for size in outputs
            for tensor in (self._room(_DOWN, inputs, rows), self._room(_UP, size, self.rank))
        )

    def plain(self, name: str, inputs: int, outputs: int, *, itemsize: int) -> Tensors:
        """Beside a matrix that every rank holds whole, in elements of its own size."""
        room = self.linear(name, inputs, (outputs,))
        if not room or name not in _LABEL_HEADS:
            return room
        return (
            *room,
            Tensor(_WHOLE, self.slots * outputs * inputs, self.itemsize),
            Tensor(_WHOLE, self.slots * outputs, itemsize),
            Tensor(_WHOLE, self.slots, BYTE),
        )

    def experts(self, shape: ExpertSizes, *, down_rank: int, hidden_share: int) -> Tensors:
        """Beside the routed experts of one layer, of these sizes on this rank. hidden_share:
        rows of the last matrix here."""
        held, inner, parts = shape.experts, shape.intermediate_size, shape.merged
        down = self._room(_DOWN, held * shape.hidden_size, down_rank)
        up = (self._room(_UP, held * inner, self.rank),) * parts
        if self.one_up:
            parts, up = 1, (self._room(_UP, parts * held * inner, self.rank),)
        return (
            Tensor(_ENABLED, self.slots + 1, INT32),
            *(down,) * parts,
            *up,
            self._room(_DOWN, held * inner, self.rank),
            self._room(_UP, held * hidden_share, self.rank),
        )

    def of_embedding(self, name: str, rows: int, columns: int) -> Tensors:
        """Beside the embedding of tokens: every rank holds all rows."""
        if not self.embedding or name != _EMBEDDING:
            return ()
        return self._room(_DOWN, rows, self.rank), self._room(_UP, columns, self.rank)

    def of_head(self, rows: int, padded: int, columns: int, ranks: int) -> Tensors:
        """Beside the head: every rank holds all rows, and if they are shared out where each
        stands. padded: rows with those that pad the vocabulary."""
        if not self.head:
            return ()
        if rows > LARGEST_VOCABULARY:
            raise EngineRefusalError(
                stage="model_error",
                error_type="ValueError",
                message=f"When using LoRA, vocab size must be <= {LARGEST_VOCABULARY}",
                way_out="drop --enable-lora",
            )
        mapping = (Tensor(_MAPPING, padded, INT64),) if ranks > 1 else ()
        down, up = self._room(_DOWN, columns, self.rank), self._room(_UP, rows, self.rank)
        return (down, up, *mapping)

    def _room(self, name: str, size: int, rank: int) -> Tensor:
        return Tensor(name, self.slots * rank * size, self.itemsize)


def adapters_only(tensors: Iterable[Tensor]) -> Tensors:
    """Those of the tensors that are room for adapters."""
    return tuple(tensor for tensor in tensors if tensor.name in _NAMES)
