"""``--vary NAME=VALUES``: lists, ranges and doubling, read by the kind of the flag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.flag_values import convert, nearest_flag
from kvplan_cli.loader.flags import FLAGS, Flag, FlagKind
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.loader.sizes import parse_size
from kvplan_cli.results_sweep import Axis, Unit, Value

FORMS: Final = (
    "--vary tensor-parallel-size=1,2,4, --vary max-model-len=8k..128k*2, "
    "--vary gpu-memory-utilization=0.80..0.95+0.05"
)
DEFAULT: Final = "default"
MOST_POINTS: Final = 1_000_000
_MOST_VALUES: Final = 100_000
_LONGEST: Final = 10_000

_NAMES: Final = {
    **{flag.name: flag for flag in FLAGS},
    **{alias.replace("-", "_"): flag for flag in FLAGS for alias in flag.aliases},
    **{short.lstrip("-"): flag for flag in FLAGS for short in flag.short},
}
_SIZES: Final = ("gpu_mem", "kv_mem", "weights")
_WORDS: Final = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_COUNTED: Final = (FlagKind.INTEGER, FlagKind.ENGINE_INTEGER, FlagKind.LENGTH)
_UNVARIED: Final = (FlagKind.TEXTS, FlagKind.OBJECT)

Reader = Callable[[str], Value]


def read_axes(texts: list[str]) -> tuple[Axis, ...]:
    """All ``--vary`` of a call. Raises: InputError with every fault."""
    problems = Problems()
    axes: list[Axis] = []
    for text in texts:
        with problems.collecting():
            axes.append(_axis(text))
    names = [axis.name for axis in axes]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.add(
                f"--vary {name.replace('_', '-')}",
                "is given twice",
                "put all its values into one list",
            )
    points = 1
    for axis in axes:
        points *= len(axis.values)
    if points > MOST_POINTS:
        problems.add("--vary", f"{points:,} points", f"at most {MOST_POINTS:,}; take fewer values")
    problems.finish()
    return tuple(axes)


def _fault(where: str, reason: str, way_out: str | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def _axis(text: str) -> Axis:
    name, equals, values = text.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    if not equals or not name or not values.strip() or len(text) > _LONGEST:
        raise _fault("--vary", f"{shown(text)} is not NAME=VALUES", FORMS)
    where = f"--vary {name.replace('_', '-')}"
    if name in _SIZES:
        reader: Reader = lambda word: parse_size(word, where)  # noqa: E731
        read = _values(values, reader, where, steps=reader)
        return Axis(name=name, values=read, is_flag=False, unit=Unit.BYTES)
    if name == "gpu":
        return Axis(name=name, values=_values(values, str, where), is_flag=False)
    flag = _NAMES.get(name)
    if flag is None:
        near = nearest_flag(name)
        way_out = f"did you mean {near}?" if near else "kvplan fit --help lists the flags"
        raise _fault(where, "there is no such flag", way_out)
    if flag.kind in _UNVARIED:
        raise _fault(where, "lists and objects can't be varied", "run it once for each")
    return _flag_axis(flag, values, f"--vary {flag.dashed}")


def _flag_axis(flag: Flag, values: str, where: str) -> Axis:
    def read(word: str) -> Value:
        if word == DEFAULT:
            value: Value = getattr(EngineArgs(), flag.name)
            return value
        return _converted(flag, word, where)

    counted = flag.kind in _COUNTED or flag.kind is FlagKind.SIZE
    steps = read if counted else _decimal_step if flag.kind is FlagKind.NUMBER else None
    unit = Unit.BYTES if flag.kind is FlagKind.SIZE else Unit.PLAIN
    return Axis(
        name=flag.name,
        values=_values(values, read, where, steps=steps),
        is_flag=True,
        unit=unit,
    )


def _converted(flag: Flag, word: str, where: str) -> Value:
    if flag.kind is FlagKind.BOOLEAN:
        if word.lower() not in _WORDS:
            raise _fault(where, f"{shown(word)} is neither true nor false", "true,false")
        return _WORDS[word.lower()]
    value: Value = convert(flag, word, where)
    return value


def _decimal_step(word: str) -> Value:
    try:
        return float(Decimal(word))
    except InvalidOperation:
        raise _fault("--vary", f"{shown(word)} is no step", FORMS) from None


def _values(
    text: str, read: Reader, where: str, *, steps: Reader | None = None
) -> tuple[Value, ...]:
    """The items of a list in order, each once. steps: how a range's step reads, if it may be."""
    found: dict[tuple[type, Any], Value] = {}
    for item in text.split(","):
        word = item.strip()
        if not word:
            raise _fault(where, "a value is missing", FORMS)
        ranged = ".." in word and steps is not None
        for value in _range(word, read, steps, where) if ranged and steps else [read(word)]:
            found.setdefault((type(value), value), value)
            if len(found) > _MOST_VALUES:
                raise _fault(where, f"more than {_MOST_VALUES:,} values", "take a larger step")
    return tuple(found.values())


def _range(word: str, read: Reader, steps: Reader, where: str) -> Iterator[Value]:
    """``a..b``, ``a..b+step`` or ``a..b*factor``; both ends included where they are reached."""
    first, _, rest = word.partition("..")
    sign = next((sign for sign in "*+" if sign in rest), "")
    last, _, by = rest.partition(sign) if sign else (rest, "", "1")
    low, high = _number(read(first), where), _number(read(last), where)
    step = _factor(by, where) if sign == "*" else _number(steps(by), where)
    grows = step > 1 if sign == "*" else step > 0
    if low > high or low <= 0 or not grows:
        raise _fault(where, f"{shown(word)} is not a rising range", FORMS)
    if not sign and isinstance(read(first), float):
        raise _fault(where, f"{shown(word)} has no step", FORMS)
    whole = isinstance(read(first), int)
    while low <= high:
        yield int(low) if whole else float(low)
        low = low * step if sign == "*" else low + step


def _number(value: Value, where: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(where, f"{shown(value)} can't end a range", FORMS)
    return Decimal(str(value))


def _factor(text: str, where: str) -> Decimal:
    try:
        factor = Decimal(text)
    except InvalidOperation:
        factor = Decimal("NaN")
    if not factor.is_finite():
        raise _fault(where, f"{shown(text)} is no factor", FORMS)
    return factor
