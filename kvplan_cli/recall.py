"""Steps whose answers are found again when everything they read is the same.

A sweep plans thousands of points that differ in a flag or two, and most steps on the way never
look at those. Which fields a step looks at is not written down here, where it would grow old:
it is seen while the step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from kvplan_cli.values import dataclass

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Answers kept a step: what a sweep goes back and forth between, not all it ever saw.
_MOST_ANSWERS: Final = 1024


class Call(Protocol):
    """How a step is called: anew (``call``), or through a ``Recall``."""

    def __call__(self, step: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What ``step(*arguments)`` returns."""


def call(step: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call the step, whatever was asked before."""
    return step(*arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a step returned. held: its arguments, so that no other object takes their identity."""

    value: Any
    held: tuple[Any, ...]


class Recall:
    """Calls pure steps, and finds their answers again.

    watched: frozen value classes whose fields are compared one by one, and only those that the
    step read, through each other as well. Every other argument is the same only if it is the
    same object, or an equal scalar. A step that raises is asked again. Steps must not return
    what is watched, nor change what they return.
    """

    def __init__(self, *watched: type) -> None:
        self._watching: dict[type, Any] = {}
        for cls in watched:
            self._watching[cls] = _watching(cls, self._watching)
        self._known: dict[object, dict[_Reads, _Kept]] = {}

    def __call__(self, step: Callable[[*Ts], T], *arguments: *Ts) -> T:
        by_reads = self._known.setdefault(step, {})
        for kept in by_reads.values():
            found = kept.find(arguments)
            if found is not None:
                value: T = found.value
                return value
        seen: list[set[str]] = []
        given = [self._watch(argument, seen) for argument in arguments]
        value = step(*given)
        reads = tuple((index, path) for index, paths in enumerate(seen) for path in sorted(paths))
        if reads not in by_reads:
            by_reads[reads] = _Kept(reads, frozenset(self._watching))
        by_reads[reads].keep(arguments, value)
        return value

    def _watch(self, argument: Any, seen: list[set[str]]) -> Any:
        paths: set[str] = set()
        seen.append(paths)
        cls = self._watching.get(type(argument))
        if cls is not None:
            return cls(argument, paths, "")
        paths.add(_IDENTITY)
        return argument


# What a step read: the argument's number, and the dotted path in it. A path that ends in
# ``_WHOLE`` stands for all of the object; ``_IDENTITY`` for an argument that is not watched.
_Reads = tuple[tuple[int, str], ...]
_IDENTITY: Final = ""
_WHOLE: Final = "="


class _Kept:
    """Answers of one step that came from reading the same fields."""

    def __init__(self, reads: _Reads, watched: frozenset[type]) -> None:
        self._lookers = [(index, _looker(path, watched)) for index, path in reads]
        self._answers: dict[Hashable, _Answer] = {}

    def find(self, arguments: Sequence[Any]) -> _Answer | None:
        try:
            return self._answers.get(self._key(arguments))
        except AttributeError:
            # An object on a path is of another class than it was then.
            return None

    def keep(self, arguments: Sequence[Any], value: Any) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]
        held = tuple(arguments)
        self._answers[self._key(arguments)] = _Answer(value=value, held=held)

    def _key(self, arguments: Sequence[Any]) -> Hashable:
        return tuple([look(arguments[index]) for index, look in self._lookers])


def _looker(path: str, watched: frozenset[type]) -> Callable[[Any], Hashable]:
    """How what stands at a path is compared: an object whose fields are watched by its class."""
    if path == _IDENTITY:
        return _identity
    if path == _WHOLE:
        return _content
    read = attrgetter(path.removesuffix(f".{_WHOLE}"))
    if path.endswith(_WHOLE):
        return lambda argument: _content(read(argument))

    def look(argument: Any) -> Any:
        value = read(argument)
        kind: type = type(value)
        return kind if kind in watched else _content(value)

    return look


def _identity(value: Any) -> Hashable:
    if value is None or isinstance(value, str | int | float | Enum):
        return (type(value), value)
    return id(value)


def _content(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return (type(value), value)


def _watching(cls: Any, watching: Mapping[type, Any]) -> Any:
    """A class whose instances are those of ``cls``, and note which of their fields are read."""
    names = frozenset(cls.__dataclass_fields__)
    read, write = object.__getattribute__, object.__setattr__

    class Watching(cls):  # type: ignore[misc]
        __slots__ = ("_kvplan_paths", "_kvplan_prefix", "_kvplan_value")

        def __init__(self, value: Any, paths: set[str], prefix: str) -> None:
            write(self, "_kvplan_value", value)
            write(self, "_kvplan_paths", paths)
            write(self, "_kvplan_prefix", prefix)

        def __getattribute__(self, name: str) -> Any:
            if name not in names:
                # A copy with other values is an ordinary one.
                return cls if name == "__class__" else read(self, name)
            value = getattr(read(self, "_kvplan_value"), name)
            paths, path = read(self, "_kvplan_paths"), read(self, "_kvplan_prefix") + name
            paths.add(path)
            inner = watching.get(type(value))
            return value if inner is None else inner(value, paths, f"{path}.")

        def __eq__(self, other: object) -> bool:
            return bool(_whole(self) == other)

        def __hash__(self) -> int:
            return hash(_whole(self))

    def _whole(self: Any) -> Any:
        read(self, "_kvplan_paths").add(read(self, "_kvplan_prefix") + _WHOLE)
        return read(self, "_kvplan_value")

    return Watching
