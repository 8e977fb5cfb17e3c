"""A request and the file it names, as one: what was given, and where each value came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules, engine_rules
from kvplan_cli.errors import InputError, Problem, UnplannableError
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.loader.catalogue import gpu_with_memory, gpus
from kvplan_cli.loader.draft_model import with_draft_model
from kvplan_cli.loader.environment import PROCESS, GivenEnvironment, merged, read_environment
from kvplan_cli.loader.flag_names import CONFIG_FORMAT
from kvplan_cli.loader.flag_values import COMMAND_LINE, GivenFlags, engine_args, merge, read_flags
from kvplan_cli.loader.known_memory import MEMORY_FIELDS, KnownMemory
from kvplan_cli.loader.load import Loaded, load, load_command
from kvplan_cli.loader.mistral_format import PARAMS_NAME
from kvplan_cli.loader.model_source import ModelSource
from kvplan_cli.loader.speculators_model import with_target
from kvplan_cli.results import FitRequest, Notice, Origin, Serving
from kvplan_cli.service.cards import named_cards
from kvplan_cli.service.input_notices import (
    ASSUMED_CARD,
    environment_notices,
    expectation_notice,
    file_notices,
    flag_notices,
    marketing_notice,
)
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.loader.expectations import Expectation
    from kvplan_cli.loader.given_layers import GivenLayers
    from kvplan_cli.loader.told import Told

# What an error is about where nothing says how much memory there is.
NO_MEMORY = "memory"
_FLAG_OF = {
    "from_log": "--from-log",
    "profile": "--profile",
    "kv_mem_bytes": "--kv-mem",
    "gpu": "--gpu",
    "gpu_mem_bytes": "--gpu-mem",
    "weights_bytes": "--weights",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything a plan starts from.

    source: None where layer specs were given outright (then ``layers``). memory: what the user
    knows of it, the command line before the file. rules: those of the release. gpu: the card
    whose rules decide; gpu_assumed when nobody named one. stage_gpus: the cards, one, or one a
    pipeline stage. told: what a start-up log or a profile tells. expect: what a plan file
    demands. stated: flags as the file, the command and the request give them. path: the plan
    file, serve YAML or manifest that MODEL is.
    """

    name: str
    source: ModelSource | None
    layers: GivenLayers | None
    args: EngineArgs
    memory: KnownMemory
    rules: EngineRules
    gpu: Gpu
    gpu_assumed: bool
    stage_gpus: tuple[Gpu, ...]
    origins: tuple[Origin, ...]
    notices: tuple[Notice, ...]
    told: Told | None = None
    expect: tuple[Expectation, ...] = ()
    stated: GivenFlags = GivenFlags()
    path: Path | None = None
    serving: Serving | None = None

    def with_args(self, **changes: object) -> Inputs:
        """The same with other flags."""
        return replace(self, args=replace(self.args, **changes))  # type: ignore[arg-type]


def read_inputs(request: FitRequest, *, needs_memory: bool = True) -> Inputs:
    """Load the model and lay the request's flags over those of its file.

    needs_memory: whether it is an error that nothing says how much there is.
    Raises: InputError, UnplannableError.
    """
    given = read_flags(request.flags, COMMAND_LINE)
    told = _told(request, KnownMemory())
    loaded = _loaded(request, told, given.values.get("revision"))
    if told is None:
        told = _told(request, loaded.memory)
    flags = stated = merge(loaded.flags, given)
    _check_refused(flags, loaded.source)
    if told is not None:
        flags = merge(told.flags, flags)
    env = _environment(request, loaded)
    args = _args(request, flags, env)
    source, name, args = _model_of(loaded, flags, args)
    # A new kind of budget drops the file's other kind.
    memory = known_of(request).over(loaded.memory)
    if needs_memory:
        _check_memory(memory, args, told)
    cards, assumed, notices = _cards(memory, told, args.pipeline_parallel_size)
    rules = _rules(request, loaded, told)
    return Inputs(
        name=name,
        source=source,
        layers=loaded.layers,
        args=args,
        memory=memory,
        rules=rules,
        gpu=cards[0],
        gpu_assumed=assumed,
        stage_gpus=cards,
        origins=(*_origins(flags, memory, request, loaded), *_environment_origins(env)),
        notices=(
            *notices,
            *flag_notices(flags, estimated=not _is_known(memory, args)),
            *environment_notices(env),
            *file_notices(loaded.notes),
            *expectation_notice(loaded.expect),
        ),
        told=told,
        expect=tuple(loaded.expect.values()),
        stated=stated,
        path=loaded.path,
        serving=Serving(
            model=loaded.engine_model,
            flags={**flags.values, **_replaced(args.hf_overrides)},
            others=flags.others,
            env=env.values,
        ),
    )


def _model_of(
    loaded: Loaded, flags: GivenFlags, args: EngineArgs
) -> tuple[ModelSource | None, str, EngineArgs]:
    """The model with its overrides, its name, and the flags that its own file adds."""
    if loaded.source is None:
        return None, loaded.name, args
    target, args = with_target(loaded.source, args)
    name = loaded.name if target is loaded.source else target.name
    where = flags.origins.get("hf_overrides", "--hf-overrides")
    return target.overridden(args.hf_overrides or {}, where), name, args


def _args(request: FitRequest, flags: GivenFlags, env: GivenEnvironment) -> EngineArgs:
    """The flags as the engine's arguments, the draft model's config among them."""
    overrides = request.hf_overrides or flags.values.get("hf_overrides") or {}
    args = replace(engine_args(flags.without("hf_overrides"), env.values), hf_overrides=overrides)
    drafter = flags.origins.get("speculative_config", "--speculative-config")
    return with_draft_model(args, drafter)


def _rules(request: FitRequest, loaded: Loaded, told: Told | None) -> EngineRules:
    """Those of the release that the request names, else the file, else a log, else the newest."""
    if request.engine_version is not None:
        return engine_rules(request.engine_version)
    if loaded.engine_version is not None:
        return engine_rules(loaded.engine_version, loaded.engine_version_place)
    if told is None:
        return NEWEST_RULES
    from kvplan_cli.service.told_notices import told_rules

    return told_rules(told.measured.release)


def _told(request: FitRequest, known: KnownMemory) -> Told | None:
    """What the request's log or profile tells, else the file's; None without one.

    A memory that the request states drops those of the file.
    """
    from_log, profile = request.from_log, request.profile
    stated = request.kv_mem_bytes or request.gpu or request.gpu_mem_bytes
    if from_log is None and profile is None and not stated:
        from_log, profile = known.from_log, known.profile
    if from_log is None and profile is None:
        return None
    # The table of wordings is built only where a log is read.
    from kvplan_cli.loader.told import read_told

    return read_told(from_log, profile)


def _loaded(request: FitRequest, told: Told | None, revision: str | None) -> Loaded:
    if request.command:
        return load_command(request.command, revision=revision)
    return load(
        _model(request, told),
        revision=revision,
        environment=request.environment,
        deployment=request.deployment,
        service=request.service,
    )


def _model(request: FitRequest, told: Told | None) -> str:
    if request.model or told is None:
        return request.model
    from kvplan_cli.loader.told import model_reference

    return model_reference(told)


def known_of(request: FitRequest) -> KnownMemory:
    """What the request itself says of memory."""
    return KnownMemory(**{name: getattr(request, name) for name in MEMORY_FIELDS.values()})


def _check_memory(memory: KnownMemory, args: EngineArgs, told: Told | None) -> None:
    if memory.kv_mem_bytes and args.kv_cache_memory_bytes is not None:
        raise InputError(
            Problem(
                where="--kv-mem and --kv-cache-memory-bytes",
                reason="both say what is there for the cache",
                way_out="drop one",
            )
        )
    known = memory.kv_mem_bytes or memory.gpu or memory.gpu_mem_bytes
    if told is not None and (told.measured.has_available or told.measured.total is not None):
        known = True
    if not known and args.kv_cache_memory_bytes is None:
        raise InputError(
            Problem(
                where=NO_MEMORY,
                reason="nothing says how much there is",
                way_out="--gpu h100, --gpu-mem 79.19GiB (what CUDA reports), or "
                "--kv-mem 40GiB (what is left for the KV cache), or --from-log serve.log",
            )
        )


def _is_known(memory: KnownMemory, args: EngineArgs) -> bool:
    """Whether the memory for the cache is given, so that nothing is estimated."""
    return bool(memory.kv_mem_bytes) or args.kv_cache_memory_bytes is not None


def _cards(
    memory: KnownMemory, told: Told | None, stages: int
) -> tuple[tuple[Gpu, ...], bool, tuple[Notice, ...]]:
    """The cards, whether none was named, and what is to be said of them."""
    named = None if memory.gpu is None else named_cards(memory.gpu, stages)
    gpu = named.first if named is not None else None
    if gpu is None and told is not None:
        gpu = _told_gpu(told)
    assumed = gpu is None
    total = None if told is None else told.measured.total
    size = memory.gpu_mem_bytes or (None if total is None else total.likely)
    if named is not None and len(named.gpus) > 1:
        _check_one_size(size)
        return named.gpus, False, named.notices
    card = gpu or H100_80GB
    if size is not None:
        card = replace(card, total_memory_bytes=size)
    notices = (
        *(() if named is None else named.notices),
        *marketing_notice(memory.gpu_mem_bytes),
        *((ASSUMED_CARD,) if assumed else ()),
    )
    return (card,), assumed, notices


def _check_one_size(size: int | None) -> None:
    if size is not None:
        raise InputError(
            Problem(
                where="--gpu",
                reason="several cards, and one size for all of them",
                way_out="drop --gpu-mem (or the log), or name one card",
            )
        )


def _told_gpu(told: Told) -> Gpu | None:
    """The card that was measured; the one card of the catalogue with such a memory."""
    if told.profile is not None:
        known = [card.gpu for card in gpus() if card.gpu.name == told.profile.card]
        return known[0] if known else None
    total = told.measured.total
    return None if total is None else gpu_with_memory(total.likely)


def _replaced(overrides: Mapping[str, object] | None) -> dict[str, object]:
    return {"hf_overrides": overrides} if overrides else {}


def _check_refused(flags: GivenFlags, source: ModelSource | None) -> None:
    """Raises: UnplannableError with every flag that changes the plan and is not modelled."""
    # Mistral's format, asked for, is no news where Mistral's own file was read.
    own = source is not None and source.origin.place.endswith(PARAMS_NAME)
    refused = [place for place in flags.refused if not (own and place.endswith(CONFIG_FORMAT))]
    if refused:
        reason = "it changes the plan of the cache, and kvplan does not model it"
        way_out = "leave it out to plan without it"
        raise UnplannableError(
            Problem(where=place, reason=reason, way_out=way_out) for place in refused
        )


def _environment(request: FitRequest, loaded: Loaded) -> GivenEnvironment:
    """The asker's variables beneath those of the file or the command; a container sees its own."""
    own = read_environment({} if loaded.contained else request.env, PROCESS)
    return merged(own, read_environment(loaded.env, loaded.env_place))


def _environment_origins(env: GivenEnvironment) -> Iterator[Origin]:
    for name, value in env.values.items():
        yield Origin(key=f"env.{name}", value=value, source=env.origins[name])


def _origins(
    flags: GivenFlags, memory: KnownMemory, request: FitRequest, loaded: Loaded
) -> tuple[Origin, ...]:
    origins = [
        Origin(key=key, value=_plain(value), source=flags.origins.get(key, "Python API"))
        for key, value in flags.values.items()
    ]
    for key, flag in _FLAG_OF.items():
        value = getattr(memory, key)
        if value in (None, ()):
            continue
        from_request = bool(getattr(request, key))
        place = loaded.plan.where(flag.removeprefix("--")) if loaded.plan else loaded.memory_place
        origins.append(Origin(key=key, value=_plain(value), source=flag if from_request else place))
    return (*origins, *_release_origin(request, loaded))


def _release_origin(request: FitRequest, loaded: Loaded) -> Iterator[Origin]:
    version, source = request.engine_version, "--engine-version"
    if version is None:
        version, source = loaded.engine_version, loaded.engine_version_place
    if version is not None:
        yield Origin(key="engine_version", value=version, source=source)


def _plain(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple) and len(value) == 1:
        return _plain(value[0])
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return str(value)
