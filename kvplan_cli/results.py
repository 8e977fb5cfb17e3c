"""What a use case asks and answers: the values between service, report and CLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any

from kvplan_cli.engine_rules import EngineRules
from kvplan_cli.errors import ExitCode
from kvplan_cli.gpus import Gpu
from kvplan_cli.memory.budget import Estimate, RankBudget
from kvplan_cli.memory.measured import MeasuredMemory
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """One question: does this model fit.

    model: MODEL as the user gave it. command: the words of a serve command in its place.
    service: which of a file's serve commands is meant. flags: engine flags given beside it, by
    Python name; they win over those of a file. kv_mem_bytes: bytes available for the KV cache,
    one value for all workers, or one a pipeline stage, or one a rank. gpu: a card's name.
    gpu_mem_bytes: what the device has. weights_bytes: weights of a rank, one value or one a
    stage. hf_overrides: config keys to replace. engine_version: the release whose rules the
    planner follows, None for the newest (or a file's, or a log's). from_log: a start-up log,
    ``-`` for stdin; it may name the model. profile: what was measured before, by name or file.
    save_profile: where to keep what the log measured. env: the engine's environment variables
    of whoever asks; those of a file or a command win. environment, deployment: which part of a
    plan file is meant, where it has several.
    """

    model: str = ""
    command: tuple[str, ...] = ()
    service: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    hf_overrides: Mapping[str, Any] = field(default_factory=dict)
    kv_mem_bytes: tuple[int, ...] = ()
    gpu: str | None = None
    gpu_mem_bytes: int | None = None
    weights_bytes: tuple[int, ...] = ()
    engine_version: str | None = None
    from_log: str | None = None
    profile: str | None = None
    save_profile: str | None = None
    environment: str | None = None
    deployment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an input came from.

    For example: key ``max_model_len``, value 131072, source ``--max-model-len``.
    """

    key: str
    value: str | int | float | bool | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a serve command would say of a plan's inputs.

    model: as the engine would find it; None where only kvplan knows it. flags: modelled ones, by
    Python name. others: the rest, by dashed name, as they were written. env: the engine's
    variables.
    """

    model: str | None
    flags: Mapping[str, Any]
    others: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def with_flags(self, **flags: Any) -> Serving:
        """The same with these flags, in place of what was given."""
        return replace(self, flags={**self.flags, **flags})


class NoticeKind(Enum):
    """What a user should know beside the figures."""

    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A finding in one sentence that stands alone."""

    kind: NoticeKind
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """One pipeline stage: its cached layers, those that share another's cache, its backends."""

    stage: int
    cached_layers: int
    kv_shared_layers: int
    backends: Mapping[str, int]


class Verdict(Enum):
    """The answer.

    FITS and DOES_NOT_FIT hold over the whole range of the available memory. DEPENDS: the
    answer changes inside the range.
    """

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    DEPENDS = "depends"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """A change that would make it fit, with its planned effect.

    flag: as typed on the command line. value: what to set. effect: what follows, in words.
    """

    flag: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The whole answer of ``fit``.

    engine_rules: the release whose rules the planner follows. settings: None for layer specs given
    outright. gpu: the card whose rules decide backends; gpu_assumed when the user named none.
    available: bytes for the KV cache a worker (low, likely, high). budgets: the ladder a
    stage, empty where the KV memory was given. likely, low, high: the plan or refusal at
    those memories; the same object where the memory is certain. longest_context: tokens that
    fit at the deciding memory (the model's limit where it all fits), None where not one does.
    decided_on: which of ``likely`` and ``low`` the exit code follows. measured: what a start-up
    log or a profile told, None without one. serving: the flags that the plan stands for.
    """

    model: str
    model_origin: str
    architecture: str
    engine_rules: EngineRules
    settings: ResolvedSettings | None
    gpu: Gpu | None
    gpu_assumed: bool
    origins: tuple[Origin, ...]
    stages: tuple[StageSummary, ...]
    budgets: tuple[RankBudget, ...]
    available: tuple[Estimate, ...]
    likely: Plan | Refusal
    low: Plan | Refusal
    high: Plan | Refusal
    decided_on: str
    verdict: Verdict
    longest_context: int | None
    way_out: WayOut | None = None
    notices: tuple[Notice, ...] = ()
    measured: MeasuredMemory | None = None
    serving: Serving | None = None

    @property
    def deciding(self) -> Plan | Refusal:
        """The outcome that the exit code follows."""
        return self.low if self.decided_on == "low" else self.likely

    @property
    def exit_code(self) -> ExitCode:
        fits = isinstance(self.deciding, Plan)
        return ExitCode.FITS if fits else ExitCode.DOES_NOT_FIT


class Support(Enum):
    """How far an architecture's plans can be trusted.

    EXACT: vectors of the engine prove it. UNPROVED: planned by rules that vectors prove for
    its kin, with none of its own. REFUSED: not planned.
    """

    EXACT = "exact"
    UNPROVED = "unproved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureSupport:
    """One architecture of the engine's registry.

    part: what the engine serves it as. vectors: passing answers of the engine. reason: why it
    is refused.
    """

    name: str
    part: str
    support: Support
    vectors: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledModel:
    """One model of the catalogue. architecture: the class that its config names."""

    name: str
    hub_id: str
    architecture: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledCard:
    """One card of the catalogue. marketing_gb: the size in its name, which is more than it has.

    origin: where the total comes from.
    """

    name: str
    gpu: Gpu
    marketing_gb: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModels:
    """The catalogue, and the engine's registry with how far each architecture is planned."""

    engine_release: str
    models: tuple[BundledModel, ...]
    architectures: tuple[ArchitectureSupport, ...]
