"""The words behind ``vllm serve``, read as the engine's own argument parser reads them.

Source: vLLM 0.33.0 ``vllm/utils/argparse_utils.py:FlexibleArgumentParser``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final

from kvplan_cli.errors import InputError
from kvplan_cli.loader.engine_flags import EngineFlag, Takes, engine_spellings
from kvplan_cli.loader.problems import Problems, nearest, shown
from kvplan_cli.loader.sizes import parse_engine_integer

_NUMBER: Final = re.compile(r"-\d+|-\d*\.\d+", re.ASCII)
_SHORTEST_LONG: Final = 3
OPTIMIZATION: Final = "--optimization-level"


@dataclasses.dataclass(slots=True, kw_only=True)
class ServeWords:
    """What the words give, unread.

    models: the words that are no option. values: dashed name to text, to a list of texts, to
    True or False, or to an object for dotted keys. origins: dashed name to the spelling used.
    """

    models: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)


def is_engine_option(word: str) -> bool:
    """Whether a word is an option of the engine, spelled out."""
    name = _dashed(word.partition("=")[0].partition(".")[0])
    return name in engine_spellings() or re.fullmatch(r"-O=?\d?", word, re.ASCII) is not None


def read_serve_word(rest: list[str], problems: Problems) -> ServeWords:
    """Read the option that stands first in ``rest``, and take its words from there."""
    reader = _Reader(rest=rest, where="", problems=problems)
    reader.read()
    reader.found.values |= reader.dotted
    return reader.found


def read_serve_words(words: Sequence[str], where: str, problems: Problems) -> ServeWords:
    """Read the words behind ``vllm serve``; faults go to ``problems``. The last value counts."""
    reader = _Reader(rest=list(words), where=where, problems=problems)
    while reader.rest:
        reader.read()
    # The engine's parser puts dotted keys behind everything else.
    for name, value in reader.dotted.items():
        reader.found.values[name] = value
    return reader.found


@dataclasses.dataclass(slots=True, kw_only=True)
class _Reader:
    rest: list[str]
    where: str
    problems: Problems
    found: ServeWords = field(default_factory=ServeWords)
    dotted: dict[str, dict[str, Any]] = field(default_factory=dict)

    def read(self) -> None:
        """Read one word, and those behind it that belong to it."""
        word = self.rest.pop(0)
        if not _is_option(word):
            self.found.models.append(word)
        elif word == "--":
            self.found.models += self.rest
            self.rest.clear()
        elif word.startswith("-O"):
            self._read_level(word)
        elif "." in word.partition("=")[0]:
            self._read_dotted(word)
        else:
            self._read_option(word)

    def _read_level(self, word: str) -> None:
        """``-O3``, ``-O=3`` and ``-O 3``."""
        level = word[2:].removeprefix("=")
        if not level and self.rest:
            level = self.rest.pop(0)
        self._keep(engine_spellings()[OPTIMIZATION][0], level, word)

    def _read_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        known = self._known(name)
        if known is None:
            return
        flag, off = known
        if flag.takes in (Takes.SWITCH, Takes.SET):
            if equals:
                self._fault(name, f"is a switch and takes no value, got {shown(value)}")
            self._keep(flag, not off, name)
        elif equals:
            self._keep(flag, [value] if flag.takes is Takes.SOME else value, name)
        else:
            self._read_values(flag, name)

    def _read_values(self, flag: EngineFlag, name: str) -> None:
        most = None if flag.takes is Takes.SOME else 1
        values: list[str] = []
        while self.rest and not _is_option(self.rest[0]) and len(values) != most:
            values.append(self.rest.pop(0))
        if not values and flag.takes is not Takes.PERHAPS:
            self._fault(name, "needs a value", f"{name} VALUE")
            return
        if flag.takes is Takes.SOME:
            self._keep(flag, values, name)
        else:
            self._keep(flag, values[0] if values else True, name)

    def _known(self, name: str) -> tuple[EngineFlag, bool] | None:
        """An option by its spelling, or by a beginning that only it has."""
        table = engine_spellings()
        spelled = _dashed(name)
        if spelled in table:
            return table[spelled]
        begun = [other for other in table if other.startswith(spelled)]
        if spelled.startswith("--") and len(spelled) > _SHORTEST_LONG and len(begun) == 1:
            return table[begun[0]]
        if len(begun) > 1 and spelled.startswith("--"):
            self._fault(name, "may be several options", f"one of {_listed(begun)}")
            return None
        self._tell_unknown(name, table)
        return None

    def _tell_unknown(self, name: str, known: Iterable[str]) -> None:
        near = nearest(_dashed(name), known)
        way_out = f"did you mean {near}?" if near else "see the engine's `vllm serve --help=all`"
        self._fault(name, "the engine has no such option", way_out)
        # A word behind it may be its value.
        if self.rest and not _is_option(self.rest[0]):
            self.rest.pop(0)

    def _read_dotted(self, word: str) -> None:
        """``--speculative-config.method ngram``; a plus at the end adds to a list."""
        name, equals, value = word.partition("=")
        if not equals:
            if not self.rest:
                self._fault(name, "needs a value", f"{name} VALUE")
                return
            value = self.rest.pop(0)
        spelled, _, path = name.partition(".")
        known = self._known(spelled)
        if known is None:
            return
        flag = known[0].name
        added = path.endswith("+")
        item = value.split(",") if added else _plain(value)
        self.found.origins[flag] = name
        with self.problems.collecting():
            _put(self.dotted.setdefault(flag, {}), path.removesuffix("+").split("."), item)

    def _keep(self, flag: EngineFlag, value: Any, spelling: str) -> None:
        self.found.values[flag.name] = value
        self.found.origins[flag.name] = spelling

    def _fault(self, name: str, reason: str, way_out: str | None = None) -> None:
        # The words came from a call or a file: shown() keeps them on one printable line.
        spelled = shown(name).strip("'")
        place = f"{self.where}: {spelled}" if self.where else spelled
        self.problems.add(place, reason, way_out)


def _is_option(word: str) -> bool:
    """Whether the parser takes a word for an option: negative numbers and texts are values."""
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word) and " " not in word


def _dashed(name: str) -> str:
    return f"--{name[2:].replace('_', '-')}" if name.startswith("--") else name


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)[:6])


def _plain(value: str) -> Any:
    """JSON, a number with the engine's suffixes, or the text itself."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return parse_engine_integer(value, "")
    except InputError:
        return value


def _put(target: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Lay a value into nested objects; lists grow, anything else is replaced."""
    *parents, last = path
    for parent in parents:
        inner = target.get(parent)
        if not isinstance(inner, dict):
            inner = target[parent] = {}
        target = inner
    before = target.get(last)
    both_lists = isinstance(before, list) and isinstance(value, list)
    target[last] = [*before, *value] if both_lists and isinstance(before, list) else value
