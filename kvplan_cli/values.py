"""Frozen dataclasses that cost little to define.

A plan defines more than a hundred value classes before it does anything, and the standard
decorator compiles six methods for each of them: over a millisecond a class, most of the
start-up time. Here all classes share one set of methods that read the fields. To readers and
type checkers it is ``dataclasses.dataclass``: ``fields`` and ``replace`` work, and instances
behave alike (tests/test_values.py holds both side by side).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from dataclasses import MISSING, FrozenInstanceError
    from dataclasses import dataclass as _standard
    from operator import attrgetter

    _set = object.__setattr__

    def dataclass(*, frozen: bool, slots: bool, kw_only: bool = False, eq: bool = True):
        """Like the standard decorator, for frozen classes with slots."""
        if not (frozen and slots):
            raise TypeError("classes that change take the standard decorator")
        # What the standard decorator still does: read the fields and make the slots.
        lay_out = _standard(
            init=False, repr=False, eq=False, match_args=False, slots=True, kw_only=kw_only
        )

        def decorate(cls):
            own = vars(cls)
            cls = lay_out(cls)
            fields = tuple(cls.__dataclass_fields__.values())
            cls.__kvplan_init__ = tuple((f.name, f.default, f.default_factory) for f in fields)
            cls.__kvplan_words__ = frozenset(f.name for f in fields if f.init)
            cls.__match_args__ = tuple(f.name for f in fields if f.init and not f.kw_only)
            compared = [f.name for f in fields if f.compare]
            cls.__kvplan_key__ = staticmethod(attrgetter(*compared) if compared else type)
            cls.__init__ = _init
            cls.__setattr__, cls.__delattr__ = _no_set, _no_delete
            if eq and "__eq__" not in own:
                cls.__eq__, cls.__hash__ = _eq, _hash
            if "__repr__" not in own:
                cls.__repr__ = _repr
            cls.__getstate__, cls.__setstate__ = _get_state, _set_state
            return cls

        return decorate

    def _init(self, *places, **given):
        cls = type(self)
        if places:
            names = cls.__match_args__
            if len(places) > len(names):
                raise TypeError(f"{cls.__qualname__} takes {len(names)} arguments by place")
            for name, value in zip(names, places, strict=False):
                if name in given:
                    raise TypeError(f"{cls.__qualname__} got two values for {name!r}")
                given[name] = value
        if not given.keys() <= cls.__kvplan_words__:
            unknown = sorted(given.keys() - cls.__kvplan_words__)
            raise TypeError(f"{cls.__qualname__} has no arguments {unknown}")
        for name, default, factory in cls.__kvplan_init__:
            if name in given:
                _set(self, name, given[name])
            elif default is not MISSING:
                _set(self, name, default)
            elif factory is not MISSING:
                _set(self, name, factory())
            elif name in cls.__kvplan_words__:
                raise TypeError(f"{cls.__qualname__} needs the argument {name!r}")
        post_init = getattr(cls, "__post_init__", None)
        if post_init is not None:
            post_init(self)

    def _eq(self, other):
        cls = type(self)
        if type(other) is not cls:
            return NotImplemented
        return cls.__kvplan_key__(self) == cls.__kvplan_key__(other)

    def _hash(self) -> int:
        return hash(type(self).__kvplan_key__(self))

    def _repr(self) -> str:
        shown = (f.name for f in self.__dataclass_fields__.values() if f.repr)
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({inside})"

    def _get_state(self) -> list:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def _set_state(self, state) -> None:
        for name, value in zip(self.__dataclass_fields__, state, strict=True):
            _set(self, name, value)

    def _no_set(self, name, value) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _no_delete(self, name) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
