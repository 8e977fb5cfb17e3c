"""Serve commands in files that deploy them, found by their shape.

Kubernetes objects with pods in them, compose files, Helm values: whatever holds a container that
starts the engine, or the text of a serve command. Nothing is looked up in a cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kvplan_cli.errors import InputError
from kvplan_cli.loader.launch import Launch, container_launch, find_launch
from kvplan_cli.loader.production_stack import is_model_spec, model_spec_image, model_spec_words
from kvplan_cli.loader.shell_words import expand, split_words
from kvplan_cli.values import dataclass

_SERVED_TEXTS: Final = ("vllm serve", "vllm.entrypoints.openai.api_server")
_STARTS: Final = ("command", "args", "entrypoint")
_GPUS: Final = "nvidia.com/gpu"
_PRODUCT: Final = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A serve command of a file. names: what it is called, the shortest first. path: of its keys.

    gpus: how many cards it asks for. product: the card that its node must have, as the driver
    names it with dashes for blanks; None where that is not said.
    """

    names: tuple[str, ...]
    path: str
    launch: Launch
    gpus: int | None = None
    product: str | None = None


def find_servers(documents: Sequence[Any], where: str) -> tuple[Server, ...]:
    """Every serve command, in the file's order. Raises: InputError for one that can't be read."""
    return tuple(
        server
        for number, document in enumerate(documents)
        for server in _visit(document, _Place(where=where, root=number if number else None))
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the walk stands. owners: the names around, the innermost first."""

    where: str
    root: int | None = None
    keys: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    product: str | None = None

    def below(self, key: str) -> _Place:
        return dataclasses.replace(self, keys=(*self.keys, key))

    @property
    def path(self) -> str:
        document = [] if self.root is None else [f"document {self.root + 1}"]
        return ".".join([*document, *self.keys])

    @property
    def in_services(self) -> bool:
        """Whether the value is a service of a compose file."""
        return self.keys[:-1] == ("services",)


def _visit(value: Any, place: _Place) -> Iterator[Server]:
    if isinstance(value, Mapping):
        yield from _visit_mapping(value, place)
    elif isinstance(value, list):
        yield from _visit_list(value, place)
    elif isinstance(value, str) and any(text in value for text in _SERVED_TEXTS):
        try:
            launch = find_launch(["sh", "-c", value], place.where)
        except InputError:
            # Any text may speak of the command; only a container's must be one.
            return
        if launch is not None:
            yield Server(names=_names(place), path=place.path, launch=launch)


def _visit_list(values: Sequence[Any], place: _Place) -> Iterator[Server]:
    if values and all(isinstance(value, str) for value in values):
        launch = find_launch(values, place.where)
        if launch is not None:
            yield Server(names=_names(place), path=place.path, launch=launch)
            return
    for index, value in enumerate(values):
        yield from _visit(value, place.below(str(index)))


def _visit_mapping(value: Mapping[str, Any], place: _Place) -> Iterator[Server]:
    place = _within(value, place)
    launch = _launch(value, place)
    if launch is not None:
        yield Server(
            names=_names(place),
            path=place.path,
            launch=launch,
            gpus=_gpus(value),
            product=place.product,
        )
        return
    for key, child in value.items():
        yield from _visit(child, place.below(key))


def _within(value: Mapping[str, Any], place: _Place) -> _Place:
    """The place inside a mapping: its name, and the card of its node."""
    name = value.get("name")
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str):
        name = metadata["name"]
    if place.in_services:
        name = place.keys[-1]
    selector = value.get("nodeSelector")
    product = selector.get(_PRODUCT) if isinstance(selector, Mapping) else None
    return dataclasses.replace(
        place,
        owners=(name, *place.owners) if isinstance(name, str) else place.owners,
        product=product if isinstance(product, str) else place.product,
    )


def _names(place: _Place) -> tuple[str, ...]:
    """The innermost name, that around it, both together, the path."""
    owners = place.owners[:2]
    both = ("/".join(reversed(owners)),) if len(owners) > 1 else ()
    return (*owners, *both, place.path)


def _launch(value: Mapping[str, Any], place: _Place) -> Launch | None:
    where = f"{place.where}: {place.path}"
    env = _env(value.get("env", value.get("environment")))
    if is_model_spec(value):
        words = model_spec_words(value)
        return container_launch(model_spec_image(value), words[:2], words[2:], where, env)
    if not any(key in value for key in _STARTS):
        return None
    # Compose calls the arguments command; Kubernetes calls the entry point so.
    entry, arguments = ("entrypoint", "command") if place.in_services else ("command", "args")
    return container_launch(
        _image(value.get("image")),
        _words(value.get(entry), where),
        _words(value.get(arguments), where),
        where,
        env,
    )


def _words(value: Any, where: str) -> list[str]:
    if isinstance(value, str):
        return split_words(value, where)
    return [str(word) for word in value] if isinstance(value, list) else []


def _image(value: Any) -> str | None:
    """An image's name, in one text or as Helm values part it."""
    if isinstance(value, str):
        return expand(value, {})
    if isinstance(value, Mapping) and isinstance(value.get("repository"), str):
        tag = value.get("tag")
        return value["repository"] if tag is None else f"{value['repository']}:{tag}"
    return None


def _env(value: Any) -> dict[str, str]:
    """Variables with their values: a list of name and value, of NAME=value, or a mapping."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [
            (item.get("name"), item.get("value"))
            if isinstance(item, Mapping)
            else str(item).partition("=")[::2]
            for item in value
        ]
    else:
        return {}
    return {
        str(name): str(setting) for name, setting in pairs if isinstance(setting, str | int | float)
    }


def _gpus(value: Mapping[str, Any]) -> int | None:
    """The cards that a container's resources ask for."""
    resources = value.get("resources")
    limits = resources.get("limits") if isinstance(resources, Mapping) else None
    asked = limits.get(_GPUS) if isinstance(limits, Mapping) else value.get("requestGPU")
    text = str(asked)
    return int(text) if text.isdecimal() and len(text) < 6 else None
