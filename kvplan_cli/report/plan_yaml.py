"""A first plan file as YAML, with comments that say where its figures come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from kvplan_cli import __version__
from kvplan_cli.report.gate_words import floored
from kvplan_cli.report.words import printable
from kvplan_cli.results_gate import Draft, DraftExpectation
from kvplan_cli.results_solve import End

# Words that YAML takes for something else than text, in any case.
_RESERVED: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
# Names and paths; what begins with a dot and a digit may be a number.
_PLAIN: Final = re.compile(r"(?:\.{0,2}/|[A-Za-z])[A-Za-z0-9_./@+-]*|\d+[KMGT]iB", re.ASCII)
_COMMENT_WIDTH: Final = 100


def plan_yaml(draft: Draft) -> str:
    """The whole file."""
    return "".join(f"{line}\n" for line in _lines(draft))


def _lines(draft: Draft) -> Iterator[str]:
    yield f"# What this deployment must hold: {_check(draft)} ends with 1 where it does not."
    if draft.asked:
        yield f"# Written by kvplan {__version__} from: {_comment(draft.asked)}"
    else:
        yield f"# Written by kvplan {__version__}."
    if draft.extends is not None:
        yield f"extends: {scalar(draft.extends)}"
    if draft.service is not None:
        yield f"service: {scalar(draft.service)}"
    if draft.model is not None:
        yield f"model: {scalar(draft.model)}"
    yield from _section("serve", draft.serve)
    for key, value in draft.keys.items():
        # A release must stay text.
        text = f'"{value}"' if key == "engine-version" else scalar(value)
        yield f"{key}: {text}"
    yield from _section("env", {key: str(value) for key, value in draft.env.items()})
    yield f"# {_basis(draft)}"
    yield "expect:"
    width = max(len(_entry(each)) for each in draft.expectations)
    for each in draft.expectations:
        entry = _entry(each)
        yield entry if each.today is None else f"{entry:<{width}}  # today {_today(each.today)}"


def _check(draft: Draft) -> str:
    """The call that holds the file against its plan."""
    name = "FILE" if draft.path.name == "-" else _comment(draft.path.name)
    on = draft.decided_on
    if on is None or on is End.LOW:
        return f"kvplan gate {name}"
    return f"kvplan gate {name} --on {on.value}"


def _section(key: str, values: Mapping[str, Any]) -> Iterator[str]:
    if values:
        yield f"{key}:"
        for name, value in values.items():
            yield f"  {scalar(name)}: {scalar(value)}"


def _basis(draft: Draft) -> str:
    if draft.decided_on is None:
        basis = "Today's figures on the memory that is given"
    else:
        basis = f"Today's figures on the {draft.decided_on.value} end of the memory estimate"
    if not draft.margin:
        return f"{basis}."
    return f"{basis}, less a margin of {_percent(draft.margin)}."


def _percent(part: Fraction) -> str:
    return f"{float(part * 100):g} %"


def _entry(expectation: DraftExpectation) -> str:
    return f"  {expectation.name}: {scalar(expectation.value)}"


def _today(figure: int | float) -> str:
    """Never more than there is."""
    if isinstance(figure, int):
        return f"{figure:,}"
    return f"{floored(figure):,.2f}"


def _comment(text: str) -> str:
    """One line, whatever the text holds."""
    line = printable(text)
    return line if len(line) <= _COMMENT_WIDTH else f"{line[: _COMMENT_WIDTH - 3]}..."


def scalar(value: Any) -> str:
    """A value as YAML that reads back as the same value."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # YAML 1.1 takes 1e-05 for text.
        return f"{value:.17f}".rstrip("0") if "e" in repr(value) else repr(value)
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _RESERVED
        return value if plain else _quoted(value)
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(str(key))}: {scalar(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    return f"[{', '.join(scalar(each) for each in value)}]"


def _quoted(text: str) -> str:
    """JSON's form, but for what YAML escapes otherwise: it knows no pairs of surrogates."""
    return '"' + "".join(_character(sign) for sign in text) + '"'


def _character(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if sign.isprintable():
        return sign
    return f"\\U{ord(sign):08x}"
