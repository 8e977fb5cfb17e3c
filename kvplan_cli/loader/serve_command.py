"""A serve command to what a plan starts from: its model, engine flags and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_object
from kvplan_cli.loader.flag_values import GivenFlags, merge, read_flags
from kvplan_cli.loader.flags import FLAGS, SPECULATIVE_SHORTHANDS
from kvplan_cli.loader.launch import Launch, find_launch
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.loader.serve_words import ServeWords, read_serve_words
from kvplan_cli.loader.shell_words import unknown_variable
from kvplan_cli.values import dataclass

BEHIND_DASHES: Final = "serve command"
FORMS: Final = "vllm serve MODEL ..., python -m vllm.entrypoints.openai.api_server, docker run ..."
_FELT: Final = frozenset({*(flag.dashed for flag in FLAGS), *SPECULATIVE_SHORTHANDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeCommand:
    """A serve command, read.

    model: as it was named. env: the variables that it sets. image: of its container. where: how
    errors and origins name it.
    """

    model: str
    flags: GivenFlags
    where: str
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None


def read_command(words: Sequence[str], where: str = BEHIND_DASHES) -> ServeCommand:
    """Read the words of a call that starts the engine. InputError names all faults at once."""
    launch = find_launch(words, where)
    if launch is None:
        first = f"{shown(words[0])} does not start the engine" if words else "is missing"
        raise InputError(Problem(where=where, reason=first, way_out=FORMS))
    return read_launch(launch, where)


def read_launch(launch: Launch, where: str, folder: Path | None = None) -> ServeCommand:
    """Read a serve command that was found. folder: where its files stand; here without one."""
    problems = Problems()
    given = read_serve_words(launch.words, where, problems)
    values = dict(given.values)
    files, config_model = _config(values.pop("config", None), where, folder, problems)
    named = values.pop("model", None)
    model = _model(given, named, config_model, where, problems)
    for name in tuple(_unset(model, values, where, problems)):
        values.pop(name, None)
    flags = GivenFlags()
    with problems.collecting():
        flags = merge(files, read_flags(values, where))
    problems.finish()
    return ServeCommand(
        model=model, flags=flags, where=where, env=dict(launch.env), image=launch.image
    )


def _config(
    name: Any, where: str, folder: Path | None, problems: Problems
) -> tuple[GivenFlags, str | None]:
    """The flags and the model of ``--config FILE``."""
    if not isinstance(name, str):
        return GivenFlags(), None
    with problems.collecting():
        path = Path(name) if folder is None else folder / name
        document = read_object(path)
        model = document.pop("model", None)
        return read_flags(document, place(path)), model if isinstance(model, str) else None
    return GivenFlags(), None


def _model(
    given: ServeWords, named: Any, config_model: str | None, where: str, problems: Problems
) -> str:
    models = [*given.models, *([named] if isinstance(named, str) else [])]
    if len(models) > 1:
        listed = ", ".join(shown(model) for model in models[:3])
        problems.add(where, f"names {len(models)} models: {listed}", "one model a server")
    if models and models[0].strip():
        return str(models[0])
    if config_model is not None:
        return config_model
    problems.add(where, "names no model", "vllm serve MODEL, or --model MODEL")
    return ""


def _unset(model: str, values: Mapping[str, Any], where: str, problems: Problems) -> Iterator[str]:
    """What names a variable without a value: a fault where the plan depends on it."""
    felt = {name: value for name, value in values.items() if name in _FELT}
    for name, value in {"model": model, **felt}.items():
        variable = unknown_variable(value) if isinstance(value, str) else None
        if variable is not None:
            problems.add(
                f"{where}: {name}", f"nothing here sets {variable}", "write its value instead"
            )
            yield name
