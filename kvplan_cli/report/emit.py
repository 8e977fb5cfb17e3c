"""The serve command of a plan as text: for a shell, as serve YAML, or as variables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.results import Serving

FORMS: Final = ("serve", "yaml", "env")


def emitted(serving: Serving, form: str) -> str:
    """A plan's flags in one of the FORMS.

    Raises: InputError where the engine has no name for the model.
    """
    if serving.model is None:
        raise InputError(
            Problem(
                where="--emit",
                reason="the engine can't be told this model: its config or layers stand in the "
                "plan file alone",
                way_out="name the model by its folder or hub id",
            )
        )
    if form == "yaml":
        return _yaml(serving.model, serving)
    if form == "env":
        return _env(serving.model, serving)
    return _command(serving.model, serving)


def _flags(serving: Serving) -> Iterator[tuple[str, Any]]:
    """Dashed names and values, in the order in which they were given."""
    for name, value in serving.flags.items():
        yield name.replace("_", "-"), value
    yield from serving.others.items()


def _command(model: str, serving: Serving) -> str:
    assignments = [f"{name}={shlex.quote(value)}" for name, value in serving.env.items()]
    words = ["vllm", "serve", model]
    for name, value in _flags(serving):
        words += _words(name, value)
    return f"{' '.join([*assignments, shlex.join(words)])}\n"


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list | tuple):
        return [f"--{name}", *map(str, value)] if value else []
    return [f"--{name}", _text(value)]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _yaml(model: str, serving: Serving) -> str:
    """Serve YAML, which has no place for variables: they stand in a comment."""
    import yaml

    values = {name: list(v) if isinstance(v, tuple) else v for name, v in _flags(serving)}
    text = yaml.safe_dump({"model": model, **values}, sort_keys=False, allow_unicode=True)
    variables = "".join(f"# {name}={value}\n" for name, value in serving.env.items())
    return f"{variables}{text}"


def _env(model: str, serving: Serving) -> str:
    """A variable for each flag, for files of variables and shells; switches are 1 or 0."""
    lines = [f"MODEL={shlex.quote(model)}\n"]
    for name, value in _flags(serving):
        spelled = name.replace("-", "_").replace(".", "__").upper()
        if isinstance(value, bool):
            text = str(int(value))
        elif isinstance(value, list | tuple):
            text = " ".join(map(str, value))
        else:
            text = _text(value)
        lines.append(f"{spelled}={shlex.quote(text)}\n")
    lines += [f"{name}={shlex.quote(value)}\n" for name, value in serving.env.items()]
    return "".join(lines)
