"""Words of a call to raw values by option. Every fault is noted and reading goes on.

Typer knows the commands; the options of a command are read here, because its parser stops
at the first fault and builds a pydantic adapter for each option on every call (0.1 s).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kvplan_cli.cli.options import Option, normalized_name
from kvplan_cli.loader.flag_values import nearest_flag
from kvplan_cli.loader.flags import FLAGS_BY_NAME, SPECULATIVE_SHORTHANDS, FlagKind
from kvplan_cli.loader.problems import Problems, nearest, shown

_MODEL_FORMS: Final = "a config.json, a folder, a hub id, a catalogue name, or a YAML file"
_LONGEST_MODEL: Final = 4096
# The engine's own options for what MODEL says here.
_SAID_BY_MODEL: Final = {
    "--model": "give its name as the word MODEL",
    "--config": "give the YAML file as MODEL",
}


@dataclass(slots=True, kw_only=True)
class Call:
    """What was given, unread.

    values: option name to its text, to True or False for a switch, to a list of texts for an
    option that repeats. dotted: ``hf-overrides.rope_theta`` and kin, to their JSON values.
    engine: the engine's other flags by dashed name, as its own parser reads them.
    models: the words that are no option. unknown: whether some option is not known, so that
    a word behind it may be its value.
    """

    values: dict[str, Any] = field(default_factory=dict)
    dotted: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    unknown: bool = False


def parse(
    words: Sequence[str], options: Sequence[Option], problems: Problems, command: str = "fit"
) -> Call:
    """Read ``words`` by ``options``; faults go to ``problems``. The last of two values wins."""
    reader = _Reader(
        rest=list(words), spellings=_spellings(options), problems=problems, command=command
    )
    while reader.rest:
        reader.read()
    return reader.call


def model_of(call: Call, problems: Problems) -> str:
    """MODEL; its faults go to ``problems``."""
    models = call.models
    # Behind an unknown option a word may be its value: only what is certain is told.
    if call.unknown:
        return models[0] if models else ""
    if not models or not models[0].strip():
        problems.add("MODEL", "is empty" if models else "is missing", _MODEL_FORMS)
        return ""
    if len(models[0]) > _LONGEST_MODEL:
        problems.add("MODEL", f"{shown(models[0])} is too long for a name", _MODEL_FORMS)
    for word in models[1:]:
        problems.add("MODEL", f"{shown(word)} is one model too many", "one model a call")
    return models[0]


def _spellings(options: Sequence[Option]) -> dict[str, tuple[Option, bool]]:
    """Spelling to its option, and whether it switches it off."""
    table = {spelling: (option, False) for option in options for spelling in option.spellings}
    for option in options:
        if option.negation is not None:
            table[option.negation] = (option, True)
    return table


def spelled(word: str) -> str:
    """An option's word in its one spelling, without the value behind ``=``."""
    name = word.partition("=")[0]
    return f"--{normalized_name(name[2:])}" if name.startswith("--") else name


@dataclass(slots=True, kw_only=True)
class _Reader:
    rest: list[str]
    spellings: Mapping[str, tuple[Option, bool]]
    problems: Problems
    command: str
    call: Call = field(default_factory=Call)

    def read(self) -> None:
        """Read one word, and the value behind it where it takes one."""
        word = self.rest.pop(0)
        if not word.startswith("-") or word == "-":
            self.call.models.append(word)
            return
        known = self.spellings.get(spelled(word))
        if known is None:
            self._read_other(word)
            return
        option, off = known
        if option.metavar is None:
            self._read_switch(word, option, off)
        elif (value := self._value_of(word, option.metavar)) is not None:
            self._keep(option, value)

    def _read_switch(self, word: str, option: Option, off: bool) -> None:
        name, equals, value = word.partition("=")
        if equals:
            self.problems.add(name, f"is a switch and takes no value, got {shown(value)}")
        self.call.values[option.name] = not off

    def _keep(self, option: Option, value: str) -> None:
        if option.repeats:
            self.call.values.setdefault(option.name, []).append(value)
        else:
            self.call.values[option.name] = value

    def _value_of(self, word: str, metavar: str) -> str | None:
        name, equals, value = word.partition("=")
        if equals:
            return value
        if self.rest and spelled(self.rest[0]) not in self.spellings:
            return self.rest.pop(0)
        self.problems.add(name, "needs a value", f"{name} {metavar}")
        return None

    def _read_other(self, word: str) -> None:
        """A key of a flag that takes JSON, another flag of the engine, or what nobody knows."""
        if _is_key(word):
            value = self._value_of(word, "JSON")
            if value is not None:
                self.call.dotted[word.partition("=")[0].removeprefix("--")] = _json_or_text(value)
        elif spelled(word) in _SAID_BY_MODEL:
            self.call.unknown = True
            self.problems.add(spelled(word), "is said by MODEL here", _SAID_BY_MODEL[spelled(word)])
        elif not self._read_engine_option(word):
            self.call.unknown = True
            self._tell_unknown(word)

    def _read_engine_option(self, word: str) -> bool:
        """Whether the engine has this option; it is read then."""
        # The table of the engine's options costs nothing to calls that need none.
        from kvplan_cli.loader.serve_words import is_engine_option, read_serve_word

        if not is_engine_option(word):
            return False
        self.rest.insert(0, word)
        self.call.engine |= read_serve_word(self.rest, self.problems).values
        return True

    def _tell_unknown(self, word: str) -> None:
        option = spelled(word)
        name = option.lstrip("-").removeprefix("no-")
        shown_word = shown(word.partition("=")[0]).strip("'")
        near = nearest(option, self.spellings) or _engine_name(name)
        way_out = (
            f"did you mean {near}?" if near else f"kvplan {self.command} --help lists them all"
        )
        self.problems.add(shown_word, "there is no such option", way_out)


def _engine_name(name: str) -> str | None:
    near = nearest_flag(name)
    return f"--{near}" if near else None


def _is_key(word: str) -> bool:
    """A key of a flag that takes a JSON object: ``--hf-overrides.rope_theta``, or short for
    one: ``--spec-method``.
    """
    name, dot, _ = word.partition("=")[0].removeprefix("--").partition(".")
    if name.replace("_", "-") in SPECULATIVE_SHORTHANDS:
        return not dot
    flag = FLAGS_BY_NAME.get(name.replace("-", "_"))
    return bool(dot) and flag is not None and flag.kind is FlagKind.OBJECT


def _json_or_text(value: str) -> Any:
    """A value as the engine's parser reads one behind a dotted key."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
