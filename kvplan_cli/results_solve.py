"""What ``solve`` asks and answers: one quantity under needs."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from fractions import Fraction

from kvplan_cli.errors import ExitCode
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results import FitRequest, Notice, Origin, Serving
from kvplan_cli.values import dataclass


class Quantity(Enum):
    """What can be solved for, by the name that ``--for`` takes."""

    GPU_MEMORY_UTILIZATION = "gpu-memory-utilization"
    KV_MEM = "kv-mem"
    GPU_MEM = "gpu-mem"
    MAX_MODEL_LEN = "max-model-len"
    CONCURRENCY = "concurrency"
    MAX_NUM_BATCHED_TOKENS = "max-num-batched-tokens"
    MAX_NUM_SEQS = "max-num-seqs"
    TENSOR_PARALLEL_SIZE = "tensor-parallel-size"
    KV_CACHE_DTYPE = "kv-cache-dtype"


class End(Enum):
    """Which end of an estimated memory decides. Where the memory is known they are one."""

    LOW = "low"
    LIKELY = "likely"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Equal requests that run at a time. tokens: of one, prompt and answer together."""

    tokens: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What must hold beside the engine's own check, that one request of max_model_len fits.

    concurrency: requests of max_model_len at a time. requests: a mix that must run at a time.
    """

    concurrency: Fraction | None = None
    requests: tuple[Requests, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """One question. step: the grid of the answer, None for the quantity's own."""

    fit: FitRequest
    quantity: Quantity
    needs: Needs
    on: End = End.LOW
    step: Decimal | None = None


class Shortage(Enum):
    """What stops a value from holding.

    KV_CACHE_MEMORY: one request of max_model_len does not fit. CONCURRENCY, REQUESTS: those
    needed do not fit together. MAX_NUM_SEQS: the engine never runs so many at a time.
    MAX_MODEL_LEN: the mix has a longer request. ENGINE: it refuses these flags. UNPLANNABLE:
    kvplan does not plan them. LIMIT: the range of the quantity ends.
    """

    KV_CACHE_MEMORY = "kv_cache_memory"
    CONCURRENCY = "concurrency"
    REQUESTS = "requests"
    MAX_NUM_SEQS = "max_num_seqs"
    MAX_MODEL_LEN = "max_model_len"
    ENGINE = "engine"
    UNPLANNABLE = "unplannable"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What keeps the answer from being better, or from being at all.

    at: the value that was tried, as printed; None for the end of the range.
    """

    shortage: Shortage
    message: str
    at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One value of an enumeration. binding: None where it holds."""

    value: str
    binding: Binding | None
    max_concurrency: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What one request of ``tokens`` holds in one group, in blocks and bytes of all stages.

    kind: the engine's spec class. fixed_bytes: what does not grow with the length (a window,
    a state, the rest of a block). bytes_per_token: what a further token costs, on average over
    a whole block.
    """

    tokens: int
    count: int
    group: int
    kind: str
    num_layers: int
    blocks: int
    bytes_all_workers: int
    fixed_bytes: int
    bytes_per_token: Fraction


class Way(Enum):
    """How a value is found: by one search, value by value, or read off one plan."""

    SEARCH = "search"
    ENUMERATION = "enumeration"
    PLAN = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How the value was found, and why so."""

    way: Way
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveResult:
    """The answer.

    value: as printed; None where no value holds. outcome: planned with it (where there is
    none, with the last value of the range). costs: of a request, by group. serving:
    the flags with the value found.
    """

    model: str
    model_origin: str
    architecture: str
    engine_release: str
    origins: tuple[Origin, ...]
    quantity: Quantity
    needs: Needs
    on: End
    estimated: bool
    step: str | None
    value: str | None
    binding: Binding
    method: Method
    outcome: Plan | Refusal | None
    costs: tuple[GroupCost, ...] = ()
    tried: tuple[Tried, ...] = ()
    notices: tuple[Notice, ...] = ()
    serving: Serving | None = None

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.DOES_NOT_FIT if self.value is None else ExitCode.FITS
