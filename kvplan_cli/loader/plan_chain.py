"""A plan file with the files that it extends, and its named parts.

``extends: base.yaml`` lays a file over another one. ``environments:`` and ``deployments:`` name
parts that are laid over the rest: the base, the file, the environment, the deployment, and the
deployment's own environment, each over those before it. The outermost base may be a manifest, a
compose file or Helm values; ``service:`` names the serve command in it that is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_documents
from kvplan_cli.loader.problems import kind_of, nearest, printable, shown
from kvplan_cli.loader.sources import existing_path, missing_path
from kvplan_cli.values import dataclass

MOST_FILES: Final = 8
MOST_PARTS: Final = 1000
EXTENDS: Final = "extends"
BASE_ONLY: Final = "base-only"
ENVIRONMENTS: Final = "environments"
DEPLOYMENTS: Final = "deployments"
SERVICE: Final = "service"
# Without one of these keys a file is no plan.
PLAN_MARKS: Final = ("model", "layers", "extends", "environments", "deployments")
STRUCTURE: Final = (EXTENDS, BASE_ONLY, ENVIRONMENTS, DEPLOYMENTS, SERVICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The documents of a file that deploys the engine, and the serve command that is meant."""

    documents: Sequence[Any]
    service: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A mapping that is laid over those before it.

    at: its key path in the file, or empty. structure: the keys beside a plan's own that may stand
    in it. served: of a base that is no plan, but holds serve commands; its content is empty.
    """

    path: Path
    at: str
    content: Mapping[str, Any]
    structure: tuple[str, ...] = ()
    served: Served | None = None

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"{place(self.path)}: {self.at}" if self.at else place(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of a file's parts is meant; None where it has none."""

    deployment: str | None = None
    environment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChain:
    """A file behind those that it extends, the outermost base first."""

    files: tuple[Part, ...]

    @property
    def path(self) -> Path:
        return self.files[-1].path

    @property
    def is_base_only(self) -> bool:
        """Whether the file says that it stands for nothing by itself. Raises: InputError."""
        value = _own(self.files[-1].content, BASE_ONLY)
        if value is not None and not isinstance(value, bool):
            where = f"{self.files[-1].where}: {BASE_ONLY}"
            reason = f"expected true or false, got {kind_of(value)}"
            raise InputError(Problem(where=where, reason=reason))
        return bool(value)

    def deployments(self) -> tuple[str, ...]:
        """Names of the deployments, in the order written. Raises: InputError."""
        return _names(self.files, DEPLOYMENTS)

    def environments(self, deployment: str | None) -> tuple[str, ...]:
        """Names of the environments that a deployment has. Raises: InputError."""
        own = () if deployment is None else _parts(self.files, DEPLOYMENTS, deployment)
        return _names((*self.files, *own), ENVIRONMENTS)

    def parts(self, choice: Choice) -> tuple[Part, ...]:
        """What is laid over each other, in order. Raises: InputError where there is no such."""
        deployment = _chosen("deployment", choice.deployment, self.deployments(), self.files)
        environment = _chosen(
            "environment", choice.environment, self.environments(deployment), self.files
        )
        parts = list(self.files)
        if environment is not None:
            parts += _parts(self.files, ENVIRONMENTS, environment)
        if deployment is not None:
            own = _parts(self.files, DEPLOYMENTS, deployment)
            parts += own
            if environment is not None:
                parts += _parts(own, ENVIRONMENTS, environment)
        return tuple(parts)


def read_chain(path: Path, document: Mapping[str, Any] | None = None) -> PlanChain:
    """Read a file and those that it extends. document: the file's content, if it was read.

    Raises: InputError; for a circle or a long chain with the file where it stands.
    """
    files: list[Part] = []
    seen: list[Path] = []
    service: str | None = None
    while True:
        files.append(_file(path, document, service))
        service = service or _service(files[-1])
        seen.append(path.resolve())
        base = _base(files[-1])
        if base is None:
            _check_service(files)
            return PlanChain(files=tuple(reversed(files)))
        where = f"{place(path)}: {EXTENDS}"
        if base.resolve() in seen:
            names = " -> ".join([*(place(file.path) for file in files), place(base)])
            way_out = "a base must not lead back to what extends it"
            raise _fault(where, f"goes in a circle: {names}", way_out)
        if len(files) == MOST_FILES:
            raise _fault(where, f"more than {MOST_FILES} files deep", "put some into one")
        path, document = base, None


def _file(path: Path, document: Mapping[str, Any] | None, service: str | None) -> Part:
    """A file as a part: a plan, or what holds serve commands."""
    if document is not None:
        return Part(path=path, at="", content=document, structure=STRUCTURE)
    documents = read_documents(path)
    if len(documents) != 1 or _deploys(documents[0], path):
        served = Served(documents=documents, service=service)
        return Part(path=path, at="", content={}, served=served)
    content = documents[0]
    if not isinstance(content, Mapping):
        raise _fault(place(path), f"expected an object, got {kind_of(content)}", None)
    return Part(path=path, at="", content=content, structure=STRUCTURE)


def _deploys(document: Any, path: Path) -> bool:
    """Whether a document holds serve commands, and is no plan itself."""
    if not isinstance(document, Mapping) or any(key in document for key in PLAN_MARKS):
        return False
    # Only bases that name no model are looked at so closely.
    from kvplan_cli.loader.manifests import find_servers

    return bool(find_servers([document], place(path)))


def _service(part: Part) -> str | None:
    name = part.content.get(SERVICE)
    if name is not None and (not isinstance(name, str) or not name.strip()):
        where = f"{part.where}: {SERVICE}"
        raise _fault(where, f"expected a serve command's name, got {kind_of(name)}", None)
    return name


def _check_service(files: Sequence[Part]) -> None:
    """A service must be one of something. Raises: InputError."""
    for file in files:
        if SERVICE in file.content and files[-1].served is None:
            reason = "no file beneath holds serve commands"
            raise _fault(f"{file.where}: {SERVICE}", reason, "extends: deployment.yaml")


def _base(part: Part) -> Path | None:
    name = part.content.get(EXTENDS)
    if name is None:
        return None
    where = f"{part.where}: {EXTENDS}"
    if not isinstance(name, str) or not name.strip():
        raise _fault(where, f"expected a file's name, got {kind_of(name)}", "extends: base.yaml")
    found = existing_path(name, where, base=part.path.parent)
    if found is None:
        raise missing_path(str(part.path.parent / name), where)
    return found


def _own(content: Mapping[str, Any], key: str) -> Any:
    """A key's value, in either spelling."""
    return content.get(key, content.get(key.replace("-", "_")))


def _sections(parts: Sequence[Part], key: str) -> Iterator[tuple[Part, Mapping[str, Any]]]:
    for part in parts:
        section = part.content.get(key)
        if section is None:
            continue
        where = f"{part.where}: {key}"
        if not isinstance(section, Mapping):
            raise _fault(where, f"expected names with a plan each, got {kind_of(section)}", None)
        if any(not str(name).strip() for name in section):
            raise _fault(where, "an empty name", "name each of them")
        if len(section) > MOST_PARTS:
            raise _fault(where, f"more than {MOST_PARTS} of them", "write several files")
        yield part, section


def _names(parts: Sequence[Part], key: str) -> tuple[str, ...]:
    names = [name for _, section in _sections(parts, key) for name in section]
    return tuple(dict.fromkeys(names))


def _parts(parts: Sequence[Part], key: str, name: str) -> list[Part]:
    """What each part has under this name of a section."""
    found = []
    for part, section in _sections(parts, key):
        if name not in section:
            continue
        at = ".".join(filter(None, [part.at, key, printable(name, 80)]))
        content = section[name]
        if content is not None and not isinstance(content, Mapping):
            where = f"{place(part.path)}: {at}"
            raise _fault(where, f"expected keys of a plan, got {kind_of(content)}", None)
        inside = (ENVIRONMENTS,) if key == DEPLOYMENTS else ()
        found.append(Part(path=part.path, at=at, content=content or {}, structure=inside))
    return found


def _chosen(noun: str, name: str | None, names: Sequence[str], files: Sequence[Part]) -> str | None:
    """The name that is meant: the given one, else the only one; None where there is none."""
    where = files[-1].where
    listed = ", ".join(printable(each, 40) for each in names[:12])
    if name is None:
        if len(names) > 1:
            raise _fault(f"{where}: {noun}s", f"several {noun}s: {listed}", f"--{noun} NAME")
        return names[0] if names else None
    if name in names:
        return name
    if not names:
        raise _fault(f"--{noun}", f"{where} has no {noun}s", f"drop --{noun}")
    near = nearest(name, names)
    hint = f"did you mean {near}? " if near else ""
    raise _fault(f"--{noun}", f"{where} has no {noun} {shown(name)}", f"{hint}it has {listed}")


def _fault(where: str, reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
