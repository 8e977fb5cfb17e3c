"""MODEL to everything that a plan starts from: the one entrance of the loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.catalogue import model_of_hub_id
from kvplan_cli.loader.documents import read_documents
from kvplan_cli.loader.flag_values import GivenFlags
from kvplan_cli.loader.folder import is_model_config
from kvplan_cli.loader.known_memory import KnownMemory
from kvplan_cli.loader.model_source import ModelSource, Origin, OriginKind
from kvplan_cli.loader.plan_chain import PLAN_MARKS
from kvplan_cli.loader.problems import printable
from kvplan_cli.loader.sources import (
    existing_path,
    from_document,
    is_path_like,
    not_a_model_file,
    resolve_model,
)
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.loader.expectations import Expectation
    from kvplan_cli.loader.given_layers import GivenLayers
    from kvplan_cli.loader.plan_file import PlanFile
    from kvplan_cli.loader.serve_command import ServeCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What MODEL led to.

    name: how the answer calls the model. source: its config; None where only layers are
    given. flags, memory, expect, env: of a plan file, serve YAML or serve command, else empty;
    env_place: where env was set. contained: the engine runs in a container, which sees no
    variables but its own. plan: that file, for the origins of what it gives. path: the plan
    file, or the manifest that holds the serve command. engine_version:
    the release that was named, and where. memory_place: where a file that is no plan names the
    card. notes: what is to be said of the file.
    named: the model as a serve command names it.
    """

    name: str
    source: ModelSource | None
    flags: GivenFlags = field(default_factory=GivenFlags)
    memory: KnownMemory = field(default_factory=KnownMemory)
    expect: Mapping[str, Expectation] = field(default_factory=dict)
    layers: GivenLayers | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_place: str = ""
    contained: bool = False
    plan: PlanFile | None = None
    path: Path | None = None
    engine_version: str | None = None
    engine_version_place: str = ""
    memory_place: str = ""
    notes: tuple[str, ...] = ()
    named: str | None = None

    @property
    def engine_model(self) -> str | None:
        """The model as the engine would find it; None where only kvplan knows it."""
        return self.named or (None if self.source is None else self.source.engine_name)


def load(
    model: str,
    *,
    revision: str | None = None,
    environment: str | None = None,
    deployment: str | None = None,
    service: str | None = None,
) -> Loaded:
    """Resolve a MODEL argument. revision: of the hub's repository; it wins over a file's.
    environment, deployment, service: which part of a plan file, and which of a file's serve
    commands is meant, where it has several.

    hf_overrides are not applied: they are a flag, and the command line may win over the
    file's. Raises InputError, UnplannableError.
    """
    path = existing_path(model, "MODEL") if model.strip() else None
    if path is None or path.is_dir() or not_a_model_file(path) is not None:
        _check_no_choice(environment, deployment)
        _check_service(service)
        source = resolve_model(model, revision=revision)
        return Loaded(name=source.name, source=source)
    documents = read_documents(path)
    document = documents[0] if len(documents) == 1 else None
    if not isinstance(document, dict):
        _check_no_choice(environment, deployment)
        return _load_deployed(documents, path, revision, service)
    # A config may have a key called model or layers; what says that it is one comes first.
    if is_plan(document) and not is_model_config(document):
        # Plan files bring specs and expectations with them, which a plain config does not need.
        from kvplan_cli.loader.plan_chain import Choice, read_chain
        from kvplan_cli.loader.plan_file import read_plan

        _check_service(service)
        choice = Choice(environment=environment, deployment=deployment)
        return _load_plan(read_plan(read_chain(path, document), choice), revision)
    _check_no_choice(environment, deployment)
    source_or_none = from_document(document, path)
    if source_or_none is None:
        return _load_deployed(documents, path, revision, service)
    _check_service(service)
    return Loaded(name=source_or_none.name, source=source_or_none)


def _check_service(service: str | None) -> None:
    if service is not None:
        reason = "MODEL is no file that holds serve commands"
        raise InputError(Problem(where="--service", reason=reason, way_out="leave it out"))


def _load_deployed(
    documents: Sequence[Any], path: Path, revision: str | None, service: str | None
) -> Loaded:
    """A file that deploys the engine: the one serve command in it, or the one that is meant."""
    from kvplan_cli.loader.deployment import read_deployment

    deployment = read_deployment(documents, path, service)
    model, where = deployment.command.model, deployment.command.where
    if is_path_like(model) and existing_path(model, where) is None:
        raise _in_the_container(model, where, path, service)
    loaded = _load_command(deployment.command, revision)
    return replace(
        loaded,
        path=path,
        contained=True,
        memory=KnownMemory(gpu=deployment.gpu),
        memory_place=deployment.gpu_place,
        notes=(*loaded.notes, *deployment.notes),
    )


def _in_the_container(model: str, where: str, path: Path, service: str | None) -> InputError:
    chosen = f", service: {service}" if service else ""
    return InputError(
        Problem(
            where=where,
            reason=f"no such file here: {printable(model, 200)}",
            way_out="where only the container has it, say in a plan file what stands there: "
            f"extends: {path.name}{chosen}, model: NAME",
        )
    )


def load_command(words: Sequence[str], *, revision: str | None = None) -> Loaded:
    """Resolve the model of a serve command, and read its flags and variables.

    Raises InputError, UnplannableError.
    """
    # Only a call that holds a serve command needs the table of the engine's options.
    from kvplan_cli.loader.serve_command import read_command

    return _load_command(read_command(words), revision)


def _load_command(command: ServeCommand, revision: str | None) -> Loaded:
    from kvplan_cli.loader.deployment import image_release

    revision = revision or command.flags.values.get("revision")
    model = _bundled(command.model, revision)
    source = resolve_model(model, revision=revision, where=command.where)
    release, note = image_release(command.image)
    return Loaded(
        name=source.name,
        source=source,
        flags=command.flags,
        env=command.env,
        env_place=command.where,
        contained=command.image is not None,
        named=command.model,
        engine_version=release,
        engine_version_place=f"{command.where}: image",
        notes=(note,) if note else (),
    )


def _bundled(model: str, revision: str | None) -> str:
    """The catalogue's name of a hub id, where it brings that model: the hub's, as looked at once.

    Only for what engine files name: as MODEL, a hub id always asks the hub.
    """
    bundled = None if revision is not None else model_of_hub_id(model)
    return model if bundled is None else bundled.name


def is_plan(document: Mapping[str, Any]) -> bool:
    """Whether a document is a plan file or serve YAML rather than a model's config."""
    return any(key in document for key in PLAN_MARKS)


def _check_no_choice(environment: str | None, deployment: str | None) -> None:
    for noun, name in (("environment", environment), ("deployment", deployment)):
        if name is not None:
            raise InputError(
                Problem(
                    where=f"--{noun}",
                    reason=f"MODEL is no plan file, and has no {noun}s",
                    way_out=f"drop --{noun}",
                )
            )


def _load_plan(plan: PlanFile, revision: str | None) -> Loaded:
    source = _plan_model(plan, revision or plan.flags.values.get("revision"))
    return Loaded(
        name=source.name if source else plan.path.stem,
        source=source,
        flags=plan.flags,
        memory=plan.memory,
        expect=plan.expect,
        layers=plan.layers,
        env=plan.env,
        env_place=plan.where("env"),
        contained=plan.contained,
        notes=plan.notes,
        plan=plan,
        path=plan.path,
        engine_version=plan.engine_version,
        engine_version_place=plan.where("engine-version"),
    )


def _plan_model(plan: PlanFile, revision: str | None) -> ModelSource | None:
    if plan.model is None:
        return None
    where, value = plan.model.where, plan.model.value
    if isinstance(value, str):
        # A path in a plan file is meant from the file's own folder, else from here.
        beside = existing_path(value, where, base=plan.model.path.parent)
        named = str(beside) if beside else _bundled(value, revision)
        return resolve_model(named, revision=revision, where=where)
    if not is_model_config(value):
        raise InputError(
            Problem(
                where=where,
                reason="the inline config has neither architectures nor model_type",
                way_out="copy the whole config.json there, or name it",
            )
        )
    return ModelSource(
        name=Path(plan.path).stem,
        config=value,
        origin=Origin(kind=OriginKind.INLINE, place=where),
    )
