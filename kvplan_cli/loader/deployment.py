"""One serve command of a file that deploys the engine, and what the file tells beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_rules import NEWEST, engine_rules
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.catalogue import gpus
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.flag_values import GivenFlags
from kvplan_cli.loader.launch import is_engine_image
from kvplan_cli.loader.manifests import Server, find_servers
from kvplan_cli.loader.problems import nearest, printable, shown
from kvplan_cli.loader.serve_command import ServeCommand, read_launch
from kvplan_cli.logs.releases import release_of
from kvplan_cli.values import dataclass

_FOLLOWED: Final = f"the plan follows vLLM {NEWEST}"
_SHOWN_NAMES: Final = 12
_WANTED: Final = (
    "a plan file or serve YAML names its model with model:; a manifest, a compose file or Helm "
    "values hold a container that runs vllm serve"
)
_RANK_FLAGS: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "data_parallel_size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A serve command and its surroundings. gpu: the card that its node must have, by name."""

    command: ServeCommand
    gpu: str | None = None
    gpu_place: str = ""
    notes: tuple[str, ...] = ()


def read_deployment(documents: Sequence[Any], path: Path, service: str | None) -> Deployment:
    """The serve command that ``service`` names, or the only one.

    Raises: InputError where there is none, or several and none is named.
    """
    where = place(path)
    server = _chosen(find_servers(documents, where), where, service)
    # Paths of a container are not those of this machine: --config stands beside the file.
    command = read_launch(server.launch, f"{where}: {server.path}", path.parent)
    return Deployment(
        command=command,
        gpu=_card(server.product),
        gpu_place=f"{where}: nodeSelector",
        notes=_idle_note(server, command.flags),
    )


def image_release(image: str | None) -> tuple[str | None, str | None]:
    """The release that an image's tag names, if its rules are known; else what to say of it."""
    if image is None or not is_engine_image(image):
        return None, None
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    numbers = release_of(tag)
    if numbers is None:
        return None, f"The image {printable(image, 80)} names no release: {_FOLLOWED}."
    release = ".".join(str(part) for part in numbers)
    try:
        engine_rules(release)
    except InputError:
        return None, f"The rules of the image's release, {release}, are not known: {_FOLLOWED}."
    return release, None


def _chosen(servers: Sequence[Server], where: str, service: str | None) -> Server:
    if not servers:
        reason = "neither a model's config, nor a plan, nor does it hold a serve command"
        raise InputError(Problem(where=where, reason=reason, way_out=_WANTED))
    if service is None:
        if len(servers) == 1:
            return servers[0]
        reason = f"holds {len(servers)} serve commands"
        way_out = f"choose one with --service: {_listed(servers)}"
        raise InputError(Problem(where=where, reason=reason, way_out=way_out))
    named = [server for server in servers if service in server.names]
    if len(named) == 1:
        return named[0]
    reason = f"{where} holds no serve command called {shown(service)}"
    if named:
        reason = f"{len(named)} serve commands of {where} are called {shown(service)}"
    near = nearest(service, [name for server in servers for name in server.names])
    hint = f"did you mean {near}? " if near and not named else ""
    way_out = f"{hint}one of {_listed(servers)}"
    raise InputError(Problem(where="--service", reason=reason, way_out=way_out))


def _listed(servers: Sequence[Server]) -> str:
    """The shortest name of each that no other has."""
    every = [name for server in servers for name in set(server.names)]
    shortest = [
        next((name for name in server.names if every.count(name) == 1), server.path)
        for server in servers
    ]
    more = f" and {len(servers) - _SHOWN_NAMES} more" if len(servers) > _SHOWN_NAMES else ""
    return ", ".join(printable(name, 60) for name in shortest[:_SHOWN_NAMES]) + more


def _card(product: str | None) -> str | None:
    """The catalogue's name of a card as node labels spell the driver's name."""
    cards = gpus() if product else ()
    named = (card.name for card in cards if card.gpu.name.replace(" ", "-") == product)
    return next(named, None)


def _idle_note(server: Server, flags: GivenFlags) -> tuple[str, ...]:
    ranks = 1
    for name in _RANK_FLAGS:
        ranks *= flags.values.get(name, 1)
    if server.gpus is None or ranks >= server.gpus:
        return ()
    return (f"The container asks for {server.gpus} GPUs, and its flags use {ranks}.",)
