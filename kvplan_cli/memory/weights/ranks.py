"""How a module's tensors are shared out over the ranks.

Source: vLLM 0.33.0 ``model_executor/layers/{linear,vocab_parallel_embedding}.py`` and
``fused_moe/config.py:FusedMoEParallelConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.memory.weights.adapters import Adapters
from kvplan_cli.memory.weights.quantization import DATA_CENTRE_BLACKWELL, LinearShape, Scheme
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import cdiv, round_up
from kvplan_cli.values import dataclass

VOCABULARY_PADDING: Final = 64
_PAIR: Final = 2
# Queries, keys and values are one part of an adapter, the gate another.
_NAMED_IN_TWO: Final = frozenset({"in_proj_qkvz"})


def shard(whole: int, parts: int) -> int:
    """An equal part; the engine's own refusal where there is none."""
    if whole % parts:
        raise EngineRefusalError(
            stage="model_error",
            error_type="AssertionError",
            message=f"{whole} is not divisible by {parts}",
            way_out="choose a tensor parallel size that divides it",
        )
    return whole // parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The place where modules stand: on which rank, in which dtype, under which quantization.

    itemsize: bytes an element of the model dtype. expert_shards: ranks that share each
    expert's matrices. expert_parallel_size: ranks that share whole experts; 1 without
    expert parallelism. prefix: the module path, for what a quantization config leaves out.
    capability: of the card, for what only some of them keep or pad. fuses_decode: the types
    are those that a fused decoding kernel takes. batch_invariant: only kernels whose results
    do not depend on the batch are chosen. enforce_eager: no graphs are captured. is_compiled:
    the engine compiles the model, instead of calling its own kernels one by one. adapts: only
    kernels that take LoRA adapters are chosen. shares_out_tokens: ranks share a step's tokens
    around the experts, not the modules. settings: asked for what few modules depend on, only
    when they do. adapters: the room for LoRA adapters beside each linear, None without.
    backends: the names of the attention backends.
    """

    tensor_parallel_size: int
    expert_shards: int
    expert_parallel_size: int
    itemsize: int
    scheme: Scheme
    prefix: str = ""
    capability: tuple[int, int] = (9, 0)
    fuses_decode: bool = True
    batch_invariant: bool = False
    adapts: bool = False
    enforce_eager: bool = False
    is_compiled: bool = True
    shares_out_tokens: bool = False
    settings: ResolvedSettings | None = None
    adapters: Adapters | None = None
    backends: frozenset[str] = frozenset()

    @property
    def encodes_everywhere(self) -> bool:
        """Whether every pipeline stage has its encoders, as under the older model runner.

        Source: vLLM 0.33.0 ``models/interfaces.py:SupportsMultiModal._mark_tower_model``.
        """
        return self.settings is not None and not self.settings.use_v2_model_runner

    @property
    def max_model_len(self) -> int:
        """Tokens of the longest request."""
        return 0 if self.settings is None else self.settings.max_model_len

    @property
    def max_num_batched_tokens(self) -> int:
        """Tokens of a step."""
        return 0 if self.settings is None else self.settings.max_num_batched_tokens

    @property
    def flashinfer(self) -> bool:
        """Whether FlashInfer's kernels for sparse latent attention are among the backends."""
        return any(name.startswith("FLASHINFER_MLA_SPARSE") for name in self.backends)

    def at(self, name: str) -> Site:
        """The place of a submodule; no name, this place."""
        return replace(self, prefix=self._path(name))

    def replicated_site(self) -> Site:
        """The same place for modules that every rank holds whole."""
        return replace(self, tensor_parallel_size=1)

    def unquantized(self) -> Site:
        """The same place for modules that the engine never quantizes."""
        return replace(self, scheme=Scheme())

    def ignores(self, name: str) -> bool:
        """Whether the checkpoint's format leaves the linear layer as it is."""
        return self.scheme.ignored.matches(self._path(name))

    def _path(self, name: str) -> str:
        return ".".join(part for part in (self.prefix, name) if part)

    @property
    def expert_multiple(self) -> int:
        """What unquantized experts' inner size is rounded up to: only the kernels of data
        centre Blackwell ask for it.

        Source: vLLM 0.33.0 ``fused_moe/oracle/unquantized.py``.
        """
        free = not (self.batch_invariant or self.adapts)
        pads = self.capability[0] == DATA_CENTRE_BLACKWELL and free
        return 128 if pads else 1

    def share(self, size: int) -> int:
        """This rank's part of ``size`` rows or columns."""
        return shard(size, self.tensor_parallel_size)

    def kv_heads(self, num_kv_heads: int) -> int:
        """KV heads on this rank; replicated where there are fewer than ranks."""
        if self.tensor_parallel_size >= num_kv_heads:
            return 1
        return self.share(num_kv_heads)

    def vector(self, name: str, size: int, itemsize: int | None = None) -> Tensors:
        """A norm, bias or table that every rank holds whole."""
        return (Tensor(name, size, self.itemsize if itemsize is None else itemsize),)

    def host_table(self, name: str, size: int, itemsize: int | None = None) -> Tensors:
        """A part of a table that stands in the host's memory."""
        width = self.itemsize if itemsize is None else itemsize
        return (Tensor(name, size, width, on_host=True),)

    def plain(
        self, name: str, inputs: int, outputs: int, *, bias: bool = False, fp32: bool = False
    ) -> Tensors:
        """A matrix that is neither sharded nor quantized."""
        itemsize = FLOAT32 if fp32 else self.itemsize
        weight = self.vector(f"{name}.weight", inputs * outputs, itemsize)
        if self.adapters is not None:
            weight += self.adapters.plain(name, inputs, outputs, itemsize=itemsize)
        return weight + (self.vector(f"{name}.bias", outputs, itemsize) if bias else ())

    def embedding(self, name: str, rows: int, columns: int) -> Tensors:
        """A vocabulary table: rows padded, then shared out."""
        padded = self.share(round_up(rows, VOCABULARY_PADDING))
        room = () if self.adapters is None else self.adapters.of_embedding(name, rows, columns)
        return (Tensor(f"{name}.weight", padded * columns, self.itemsize), *room)

    def head(self, rows: int, columns: int) -> Tensors:
        """The matrix to the vocabulary; only some formats quantize it."""
        padded = self.share(round_up(rows, VOCABULARY_PADDING))
        return self.scheme.head(LinearShape("lm_head", columns, (padded,)), self.itemsize)

    def replicated(
        self, name: str, inputs: int, outputs: int | Sequence[int], *, bias: bool = False
    ) -> Tensors:
        """A linear layer that every rank holds whole; several outputs are merged in one."""
        parts = (outputs,) if isinstance(outputs, int) else tuple(outputs)
        room = () if self.adapters is None else self.adapters.linear(name, inputs, parts)
        return self._linear(name, inputs, parts, room, bias=sum(parts) if bias else 0)

    def column(
        self, name: str, inputs: int, outputs: int | Sequence[int], *, bias: bool = False
    ) -> Tensors:
        """A linear layer whose output rows are shared out; several are merged in one."""
        sizes = (outputs,) if isinstance(outputs, int) else outputs
        parts = tuple(self.share(size) for size in sizes)
        room = self._beside_merged(name, inputs, parts)
        return self._linear(name, inputs, parts, room, bias=sum(parts) if bias else 0)

    def row(self, name: str, inputs: int, outputs: int, *, bias: bool = False) -> Tensors:
        """A linear layer whose input columns are shared out; its bias is whole."""
        held = self.share(inputs)
        room: Tensors = ()
        if self.adapters is not None and name not in self.adapters.bare:
            up = self.share(outputs) if self.adapters.fully_sharded else outputs
            room = self.adapters.linear(name, held, (up,))
        return self._linear(name, held, (outputs,), room, bias=outputs if bias else 0)

    def qkv(
        self,
        name: str,
        hidden_size: int,
        *,
        num_heads: int,
        num_kv_heads: int,
        head_size: int,
        head_size_v: int | None = None,
        bias: bool = False,
        gates: int = 0,
        single: bool = False,
    ) -> Tensors:
        """Merged queries, keys and values. gates: further output rows of the whole model.
        single: one matrix in the checkpoint as well, with one scale.
        """
        size_v = head_size if head_size_v is None else head_size_v
        kv_heads = self.kv_heads(num_kv_heads)
        parts: tuple[int, ...] = (
            self.share(num_heads) * head_size,
            kv_heads * head_size,
            kv_heads * size_v,
        )
        if gates:
            parts = (*parts, self.share(gates))
        room = self._beside_columns(name, hidden_size, parts)
        if single:
            parts = (sum(parts),)
        return self._linear(name, hidden_size, parts, room, bias=sum(parts) if bias else 0)

    def _beside_merged(self, name: str, inputs: int, outputs: tuple[int, ...]) -> Tensors:
        """The same of merged columns: of three parts or more none is adapted where the ranks
        share out both matrices, unless adapters name them in two."""
        many = len(outputs) > _PAIR and name not in _NAMED_IN_TWO
        if self.adapters is not None and self.adapters.fully_sharded and many:
            return ()
        return self._beside_columns(name, inputs, outputs)

    def _beside_columns(self, name: str, inputs: int, outputs: tuple[int, ...]) -> Tensors:
        """The room for adapters beside a linear whose outputs are shared out."""
        if self.adapters is None:
            return ()
        return self.adapters.linear(name, inputs, outputs, down_rank=self.adapter_rank)

    @property
    def adapter_rank(self) -> int:
        """Rows on this rank of an adapter's first matrix, where the ranks may share it out."""
        if self.adapters is None:
            return 0
        return self.share(self.adapters.rank) if self.adapters.fully_sharded else self.adapters.rank

    def _linear(
        self, name: str, inputs: int, outputs: tuple[int, ...], room: Tensors, *, bias: int
    ) -> Tensors:
        shape = LinearShape(name, inputs, outputs)
        weights = self.scheme.linear(shape, self.itemsize, self._path(name)) + room
        return weights + (self.vector(f"{name}.bias", bias) if bias else ())

    def experts_held(self, num_experts: int) -> int:
        """Whole experts on the fullest rank."""
        return cdiv(num_experts, self.expert_parallel_size)


# Which modules beside the routed experts a rank holds whole.
Whole = Callable[[Site], bool]


def sharded(site: Site) -> bool:
    """None of them."""
    return False


def with_tokens(site: Site) -> bool:
    """They are whole where the ranks share out tokens."""
    return site.shares_out_tokens


def with_tokens_unstaged(site: Site) -> bool:
    """The same, in model classes that do so without pipeline stages only."""
    settings = site.settings
    unstaged = settings is None or settings.pipeline_parallel_size == 1
    return site.shares_out_tokens and unstaged
