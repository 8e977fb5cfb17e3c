"""Finds the engine's serve command in the words of a call, a container or a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Final

from kvplan_cli.loader.shell_words import assignment, expand, split_commands, split_words
from kvplan_cli.values import dataclass

_API_SERVER: Final = "vllm.entrypoints.openai.api_server"
_ENGINE_MODULES: Final = ("vllm", "vllm.entrypoints.cli.main")
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ash"})
_RUNTIMES: Final = frozenset({"docker", "podman", "nerdctl"})
_SERVER_SCRIPT: Final = "vllm/entrypoints/openai/api_server.py"
# Options of ``docker run`` that take no value; every other takes one.
_BARE_OPTIONS: Final = (
    "--detach",
    "--disable-content-trust",
    "--init",
    "--interactive",
    "--no-healthcheck",
    "--oom-kill-disable",
    "--privileged",
    "--publish-all",
    "--quiet",
    "--read-only",
    "--rm",
    "--sig-proxy",
    "--tty",
)
_BARE_LETTERS: Final = frozenset("ditPq")
_MOST_SHELLS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A serve command. words: those behind ``vllm serve``. env: variables that it sets.

    positional: whether a first word that is no option is the model, as with ``vllm serve``.
    image: of the container.
    """

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    positional: bool = True
    image: str | None = None


def find_launch(
    words: Sequence[str], where: str, env: Mapping[str, str] | None = None, depth: int = 0
) -> Launch | None:
    """The serve command among ``words``; None where there is none.

    env: variables that are set already. Raises: InputError for a shell text that can't be read.
    """
    known = dict(env or {})
    if len(words) == 1 and " " in words[0].strip():
        words = split_words(words[0], where)
    for index, word in enumerate(words):
        found = _entry(words, index)
        if found is not None:
            rest, positional = found
            return Launch(
                words=tuple(expand(text, known) for text in rest), env=known, positional=positional
            )
        name = PurePosixPath(word).name
        if name in _RUNTIMES and "run" in words[index + 1 : index + 3]:
            return _run_container(words[index + 1 :], where, known)
        if name in _SHELLS and depth < _MOST_SHELLS:
            text = _script(words[index + 1 :])
            if text is not None:
                return _in_script(text, where, known, depth + 1)
        set_here = assignment(word)
        if set_here is not None:
            known[set_here[0]] = expand(set_here[1], known)
    return None


def container_launch(
    image: str | None,
    entrypoint: Sequence[str],
    arguments: Sequence[str],
    where: str,
    env: Mapping[str, str],
) -> Launch | None:
    """What a container serves. An image of the engine serves by itself, with the arguments.

    Raises: InputError.
    """
    words = [*entrypoint, *arguments]
    found = find_launch(words, where, env)
    if found is None and not entrypoint and image is not None and is_engine_image(image):
        found = Launch(words=tuple(expand(word, env) for word in arguments), env=dict(env))
    return None if found is None else replace(found, image=image)


def is_engine_image(image: str) -> bool:
    """Whether an image's name says that it starts the engine's server."""
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name.startswith("vllm") and "base" not in name


def _entry(words: Sequence[str], index: int) -> tuple[Sequence[str], bool] | None:
    """The words behind an entry of the engine that stands at ``index``."""
    word, rest = words[index], words[index + 1 :]
    if PurePosixPath(word).name == "vllm" and rest and rest[0] == "serve":
        return rest[1:], True
    if word == "-m" and rest and rest[0] == _API_SERVER:
        return rest[1:], False
    if word == "-m" and len(rest) > 1 and rest[0] in _ENGINE_MODULES and rest[1] == "serve":
        return rest[2:], True
    if word.endswith(_SERVER_SCRIPT):
        return rest, False
    return None


def _script(words: Sequence[str]) -> str | None:
    """The text behind ``sh -c``, ``bash -lc``, ``bash -eo pipefail -c`` and kin."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if not word.startswith("--") and "c" in word:
            return rest[0] if rest else None
        if not word.startswith("--") and word.endswith("o"):
            rest = rest[1:]
    return None


def _in_script(text: str, where: str, env: dict[str, str], depth: int) -> Launch | None:
    """The first serve command of a shell text; assignments before it hold for it."""
    for command in split_commands(text, where):
        found = find_launch(command, where, env, depth)
        if found is not None:
            return found
        for word in command[1:] if command[0] == "export" else command:
            set_here = assignment(word)
            if set_here is None:
                break
            env[set_here[0]] = expand(set_here[1], env)
    return None


def _run_container(words: Sequence[str], where: str, env: dict[str, str]) -> Launch | None:
    """``docker run OPTIONS IMAGE ARGUMENTS``."""
    rest = list(words)
    while rest and rest.pop(0) != "run":
        pass
    entrypoint: list[str] = []
    inside: dict[str, str] = {}
    for name, value in _options(rest):
        if name in ("-e", "--env"):
            set_here = assignment(value)
            inside |= {set_here[0]: expand(set_here[1], env)} if set_here else {}
        elif name == "--entrypoint":
            entrypoint = split_words(value, where)
    if not rest:
        return None
    return container_launch(rest[0], entrypoint, rest[1:], where, inside)


def _options(rest: list[str]) -> Iterator[tuple[str, str]]:
    """The options at the head of ``rest``, which they leave."""
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            letters = word[1:]
            if _BARE_LETTERS.issuperset(letters):
                continue
            name, value, equals = word[:2], word[2:].removeprefix("="), word[2:]
        elif word in _BARE_OPTIONS:
            continue
        if not equals:
            value = rest.pop(0) if rest else ""
        yield name, value
