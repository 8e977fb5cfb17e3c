"""Flags as given become typed values; every fault of a mapping is found at once.

The same reading serves the command line, plan files and the engine's serve YAML.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.flag_names import IRRELEVANT_FLAGS, MEMORY_FLAGS, PLAN_FLAGS
from kvplan_cli.loader.flags import (
    FLAGS,
    SPECULATIVE_SHORTHANDS,
    Flag,
    FlagKind,
    negations,
)
from kvplan_cli.loader.json_text import parse_json
from kvplan_cli.loader.problems import Problems, kind_of, nearest, printable, shown
from kvplan_cli.loader.sizes import (
    is_engine_integer,
    parse_engine_integer,
    parse_length,
    parse_size,
)
from kvplan_cli.values import dataclass

COMMAND_LINE: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFlags:
    """Flags that somebody gave, by the engine's Python names.

    values: typed as in EngineArgs. origins: where each was given (``--max-model-len``,
    ``serve.yaml: max-model-len``). Places of flags that kvplan does not model: ignored change no
    plan, unestimated change the memory that an estimate leaves, refused change the plan.
    others: what those of them were given, by dashed name, as it was written. notes: what else is
    to be said.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unestimated: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)

    def without(self, name: str) -> GivenFlags:
        """The same without one flag."""
        return dataclasses.replace(
            self,
            values={key: value for key, value in self.values.items() if key != name},
            origins={key: origin for key, origin in self.origins.items() if key != name},
        )


def merge(base: GivenFlags, over: GivenFlags) -> GivenFlags:
    """Both together; where both give a flag, ``over`` (the command line) wins."""
    return GivenFlags(
        values={**base.values, **over.values},
        origins={**base.origins, **over.origins},
        notes=base.notes + over.notes,
        ignored=base.ignored + over.ignored,
        unestimated=base.unestimated + over.unestimated,
        refused=base.refused + over.refused,
        others={**base.others, **over.others},
    )


def read_flags(mapping: Mapping[str, Any], where: str) -> GivenFlags:
    """Read flags by dashed or underscored names. where: the file, or COMMAND_LINE.

    None counts as not given. InputError names all unknown flags and wrong values at once.
    """
    problems = Problems()
    reader = _Reader(where=where, problems=problems)
    for key, value in mapping.items():
        if value is not None:
            with problems.collecting():
                reader.read(str(key), value)
    reader.fold_speculative_shorthands()
    reader.note_unread_keys()
    problems.finish()
    return GivenFlags(
        values=reader.values,
        origins=reader.origins,
        ignored=tuple(reader.ignored),
        unestimated=tuple(reader.unestimated),
        refused=tuple(reader.refused),
        others=reader.others,
    )


def engine_args(given: GivenFlags, env: Mapping[str, str] | None = None) -> EngineArgs:
    """The flags as the engine's arguments; what was not given stays at its default."""
    return EngineArgs(**given.values, env=dict(env or {}))


def engine_args_from(mapping: Mapping[str, Any], where: str) -> EngineArgs:
    """Read and check flags in one go."""
    return engine_args(read_flags(mapping, where))


def is_known_flag(key: str) -> bool:
    """Whether the engine has a flag of this name, in any spelling."""
    name = _dashed(key).split(".", 1)[0]
    return name in _SPELLINGS or name in _OTHER_SPELLINGS or name in SPECULATIVE_SHORTHANDS


def flag_name(key: str) -> str | None:
    """The engine's Python name of a flag that is modelled, from any spelling; else None."""
    known = _SPELLINGS.get(_dashed(key))
    return None if known is None else known[0].name


def nearest_flag(key: str) -> str | None:
    """The dashed name of the flag that ``key`` probably means."""
    name = _dashed(key)
    if name in _SHORT_FORMS:
        return _SHORT_FORMS[name]
    return nearest(name, [*_SPELLINGS, *_OTHER_SPELLINGS, *SPECULATIVE_SHORTHANDS])


def _dashed(key: str) -> str:
    head, dot, tail = key.partition(".")
    return head.replace("_", "-") + dot + tail


def _spellings() -> dict[str, tuple[Flag, bool]]:
    """Dashed name to its flag, and whether the name switches it off."""
    table: dict[str, tuple[Flag, bool]] = {}
    for flag in FLAGS:
        for name in (flag.dashed, *flag.aliases):
            table[name] = (flag, False)
        for name in flag.negations:
            table[name] = (flag, True)
    return table


_SPELLINGS: Final = _spellings()
_SHORT_FORMS: Final = {short.lstrip("-"): flag.dashed for flag in FLAGS for short in flag.short}
# Any other flag may be written negated too: whether it is a switch does not matter here.
_OTHER_SPELLINGS: Final = {
    spelling: (name, spelling != name)
    for name in (*PLAN_FLAGS, *MEMORY_FLAGS, *IRRELEVANT_FLAGS)
    for spelling in (name, *negations(name))
}


@dataclasses.dataclass(slots=True, kw_only=True)
class _Reader:
    where: str
    problems: Problems
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    unestimated: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    others: dict[str, Any] = field(default_factory=dict)
    shorthands: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def read(self, key: str, value: Any) -> None:
        name = _dashed(key)
        place = self._place(key)
        if name in SPECULATIVE_SHORTHANDS:
            self.shorthands[SPECULATIVE_SHORTHANDS[name]] = (place, value)
            return
        head, dot, path = name.partition(".")
        if dot and head in _SPELLINGS and _SPELLINGS[head][0].kind is FlagKind.OBJECT:
            self._read_dotted(_SPELLINGS[head][0], path, value, place)
        elif name in _SPELLINGS:
            flag, negated = _SPELLINGS[name]
            self._keep(flag, convert(flag, value, place), negated, place)
        elif head in _OTHER_SPELLINGS:
            other, negated = _OTHER_SPELLINGS[head]
            value = (not value) if negated else value
            self.others[f"{other}.{path}" if dot else other] = value
            self._note(other, value, place)
        else:
            raise self._unknown(key, place)

    def _note(self, name: str, value: Any, place: str) -> None:
        """A flag that kvplan does not model, by what it changes."""
        if name in PLAN_FLAGS and str(value) not in PLAN_FLAGS[name]:
            self.refused.append(place)
        elif name in MEMORY_FLAGS and value is not False:
            self.unestimated.append(place)
        else:
            self.ignored.append(place)

    def _place(self, key: str) -> str:
        if self.where == COMMAND_LINE:
            return f"--{printable(_dashed(key), 80)}"
        return f"{self.where}: {printable(key, 80)}"

    def _keep(self, flag: Flag, value: Any, negated: bool, place: str) -> None:
        value = (not value) if negated else value
        if flag.name in self.values and self.values[flag.name] != value:
            raise InputError(
                Problem(
                    where=place,
                    reason=f"contradicts {self.origins[flag.name]}",
                    way_out="keep one of the two",
                )
            )
        self.values[flag.name] = value
        self.origins[flag.name] = place

    def _read_dotted(self, flag: Flag, path: str, value: Any, place: str) -> None:
        """``speculative-config.method: eagle``, as the engine's parser takes it."""
        target = self.values.setdefault(flag.name, {})
        self.origins.setdefault(flag.name, place)
        *parents, last = path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
            if not isinstance(target, dict):
                raise InputError(Problem(where=place, reason=f"{parent} is not an object"))
        target[last] = value

    def _unknown(self, key: str, place: str) -> InputError:
        near = nearest_flag(key)
        way_out = f"did you mean {near}?" if near else "see the engine's `vllm serve --help=all`"
        return InputError(
            Problem(where=place, reason="the engine has no such flag", way_out=way_out)
        )

    def note_unread_keys(self) -> None:
        """Keys of an object that no plan reads move memory which is only estimated."""
        for flag in FLAGS:
            if flag.keys:
                unread = (key for key in self.values.get(flag.name, {}) if key not in flag.keys)
                self.unestimated += [self._place(f"{flag.dashed}.{key}") for key in unread]

    def fold_speculative_shorthands(self) -> None:
        """spec-method and kin become keys of speculative_config, as in the engine."""
        if not self.shorthands:
            return
        config = dict(self.values.get("speculative_config", {}))
        for key, (place, value) in self.shorthands.items():
            if key in config:
                self.problems.add(
                    place, f"excludes speculative_config['{key}']", "keep one of the two"
                )
            config[key] = value
            self.origins.setdefault("speculative_config", place)
        self.values["speculative_config"] = config


def convert(flag: Flag, value: Any, where: str) -> Any:
    """One flag's value, typed as in EngineArgs. InputError says what it should have been."""
    return _CONVERTERS[flag.kind](flag, value, where)


def _fault(where: str, reason: str, way_out: str | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def _integer(flag: Flag, value: Any, where: str) -> int:
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 40:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _fault(where, f"expected a whole number, got {shown(value)}")
    if flag.choices and str(value) not in flag.choices:
        raise _fault(where, f"{value} is not a legal value", _legal(flag, ""))
    return _bounded(flag, value, where)


def _bounded(flag: Flag, value: int, where: str) -> int:
    if flag.minimum is not None and value < flag.minimum:
        raise _fault(where, f"{shown(value)} is below the least, {flag.minimum}")
    if flag.maximum is not None and value > flag.maximum:
        raise _fault(where, f"{shown(value)} is above anything sensible ({int(flag.maximum)})")
    return value


def _engine_integer(flag: Flag, value: Any, where: str) -> int:
    return _bounded(flag, parse_engine_integer(value, where), where)


def _length(flag: Flag, value: Any, where: str) -> int:
    return parse_length(value, where)


def _size(flag: Flag, value: Any, where: str) -> int:
    if is_engine_integer(value):
        return parse_size(parse_engine_integer(value, where), where)
    return parse_size(value, where)


def _number(flag: Flag, value: Any, where: str) -> float:
    legal = f"above {flag.minimum} and at most {flag.maximum}"
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise _fault(where, f"expected a number, got {shown(value)}", legal) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(where, f"expected a number, got {shown(value)}", legal)
    # Written so that NaN fails too.
    if not (flag.minimum or 0) < value <= (flag.maximum or value):
        raise _fault(where, f"{shown(value)} is out of range", legal)
    return float(value)


def _boolean(flag: Flag, value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _fault(where, f"expected true or false, got {shown(value)}")
    return value


def _text(flag: Flag, value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _fault(where, f"expected text, got {shown(value)}", _legal(flag, ""))
    if not flag.choices:
        return value
    # The engine takes backend names in any case and the other choices as they stand.
    text = value.upper() if flag.name == "attention_backend" else value
    if text not in flag.choices:
        raise _fault(where, f"{shown(value)} is not a legal value", _legal(flag, value))
    return text


def _legal(flag: Flag, value: str) -> str | None:
    if not flag.choices:
        return None
    near = nearest(value, flag.choices)
    hint = f"did you mean {near}? " if near else ""
    return f"{hint}legal: {', '.join(flag.choices)}"


def _texts(flag: Flag, value: Any, where: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise _fault(where, f"expected a list of texts, got {kind_of(item)} in it")
    return tuple(str(item) for item in items)


def _object(flag: Flag, value: Any, where: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        value = parse_json(value, where)
    if not isinstance(value, Mapping):
        raise _fault(
            where, f"expected an object, got {kind_of(value)}", 'for example {"key": "value"}'
        )
    return dict(value)


_CONVERTERS: Final[Mapping[FlagKind, Callable[[Flag, Any, str], Any]]] = {
    FlagKind.INTEGER: _integer,
    FlagKind.ENGINE_INTEGER: _engine_integer,
    FlagKind.LENGTH: _length,
    FlagKind.SIZE: _size,
    FlagKind.NUMBER: _number,
    FlagKind.BOOLEAN: _boolean,
    FlagKind.TEXT: _text,
    FlagKind.TEXTS: _texts,
    FlagKind.OBJECT: _object,
}
