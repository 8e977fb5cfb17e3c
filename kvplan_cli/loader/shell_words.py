"""Shell text to commands of words, as far as serve commands need it. Nothing is ever run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from kvplan_cli.errors import InputError, Problem

MAX_CHARACTERS: Final = 100_000
_CONTINUATION: Final = re.compile(r"\\\r?\n")
_COMMENT: Final = re.compile(r"^\s*#.*$", re.MULTILINE)
_REDIRECTION: Final = re.compile(r"(?<!\S)\d?>{1,2}\s*(?:&\d|\S+)")
_OPERATORS: Final = frozenset(";&|()<>")
_VARIABLE: Final = re.compile(
    r"\$(?:\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\}|\((?P<round>\w+)\)|(?P<bare>[A-Za-z_]\w*))"
)
_ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)


def split_words(text: str, where: str) -> list[str]:
    """The words of one command, quotes removed. InputError for an open quote."""
    _check_length(text, where)
    return _split(shlex.shlex(_CONTINUATION.sub(" ", text), posix=True), where)


def split_commands(text: str, where: str) -> list[list[str]]:
    """The simple commands of a shell text, without redirections. InputError as above."""
    _check_length(text, where)
    text = _COMMENT.sub("", _CONTINUATION.sub(" ", text))
    text = _REDIRECTION.sub(" ", text).replace("\n", " ; ")
    words = _split(shlex.shlex(text, posix=True, punctuation_chars=True), where)
    return list(_commands(words))


def assignment(word: str) -> tuple[str, str] | None:
    """Name and value of ``NAME=value``; None for other words."""
    match = _ASSIGNMENT.fullmatch(word)
    return (match["name"], match["value"]) if match else None


def expand(text: str, env: Mapping[str, str]) -> str:
    """``text`` with the variables that are known in their places; others stay as written."""

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["round"] or match["bare"]
        known = env.get(name)
        if known is None or (not known and match["default"] is not None):
            return match[0] if match["default"] is None else match["default"]
        return known

    return _VARIABLE.sub(value, text)


def unknown_variable(text: str) -> str | None:
    """The first variable that a text still names; None without one."""
    match = _VARIABLE.search(text)
    return match[0] if match else None


def _split(lexer: shlex.shlex, where: str) -> list[str]:
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        reason = f"not a command: {str(error).lower()}"
        raise InputError(Problem(where=where, reason=reason)) from None


def _commands(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in words:
        if word and _OPERATORS.issuperset(word):
            if command:
                yield command
            command = []
        else:
            command.append(word)
    if command:
        yield command


def _check_length(text: str, where: str) -> None:
    if len(text) > MAX_CHARACTERS:
        reason = f"a command of {len(text)} characters"
        raise InputError(Problem(where=where, reason=reason, way_out="no serve command is so long"))
