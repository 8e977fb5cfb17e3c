"""``kvplan diff``: what changes from one answer to another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.cli.diff_options import DIFF_OPTIONS, FORMATS
from kvplan_cli.cli.formats import read_format
from kvplan_cli.cli.options import MODEL_OPTIONS
from kvplan_cli.cli.parser import Call, parse, spelled
from kvplan_cli.cli.request import contradicted, read_request
from kvplan_cli.cli.streams import page, write
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.results_diff import DiffRequest, Side
from kvplan_cli.values import dataclass

_SIDED: Final = re.compile(r"--([ab])\.([^.].*)", re.DOTALL)
_TAKES_VALUE: Final[Mapping[str, bool]] = {
    spelling: option.metavar is not None
    for option in MODEL_OPTIONS
    for spelling in (*option.spellings, *([option.negation] if option.negation else []))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffCall:
    """What is asked, and how the answer is shown."""

    request: DiffRequest
    format: str


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Plan or read both, write what changed, and say how the process ends.

    behind_dashes: a serve command in place of B. Raises: KvplanError where one has no plan.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli.report.diff_document import diff_document
    from kvplan_cli.service.diff import diff

    document = diff_document(diff(call.request))
    if call.format == "json":
        from kvplan_cli.report.json_form import dumps

        write(f"{dumps(document)}\n")
    elif call.format == "markdown":
        from kvplan_cli.report.diff_markdown import markdown

        write(markdown(document))
    else:
        from kvplan_cli.report.diff_text import render_diff

        write(render_diff(document, page()))
    return document.exit_code


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> DiffCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    common, own = _parted(words)
    call = parse(common, DIFF_OPTIONS, problems, "diff")
    names = _names(call, own, behind_dashes, problems)
    sides = []
    for letter, name in zip("ab", names, strict=True):
        command = behind_dashes if name is None else ()
        sides.append(_side(letter, name, command, call, own[letter], problems))
    shape = FORMATS[0]
    with problems.collecting():
        shape = read_format(call, FORMATS)
    problems.found[:] = dict.fromkeys(problems.found)
    problems.finish()
    request = DiffRequest(a=sides[0], b=sides[1], exit_code=bool(call.values.get("exit_code")))
    return DiffCall(request=request, format=shape)


def _parted(words: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words for both sides, and those of one, without their prefix."""
    rest, common = list(words), []
    own: dict[str, list[str]] = {"a": [], "b": []}
    while rest:
        word = rest.pop(0)
        sided = _SIDED.fullmatch(word)
        if sided is None:
            common.append(word)
            continue
        letter, name = sided.groups()
        # Short forms stand behind the prefix without their own dash.
        flag = f"-{name}" if f"-{name}" in _TAKES_VALUE else f"--{name}"
        own[letter].append(flag)
        # What nobody knows is taken to have a value, as flags of the engine mostly have.
        if "=" not in flag and _TAKES_VALUE.get(spelled(flag), True) and rest:
            own[letter].append(rest.pop(0))
    return common, own


def _names(
    call: Call, own: Mapping[str, Sequence[str]], command: Sequence[str], problems: Problems
) -> tuple[str, str | None]:
    """A and B; None for a serve command in place of B."""
    models = call.models
    forms = "two of MODEL or saved answers, or one and --b. options"
    if call.unknown and len(models) != 2:
        return (models[0] if models else "", models[-1] if models else "")
    if not models:
        problems.add("A", "is missing", forms)
        return "", ""
    for word in models[1 if command else 2 :]:
        reason = "is one too many"
        problems.add("MODEL", f"{shown(word)} {reason}", "a serve command stands for B, drop one")
    if command:
        return models[0], None
    if len(models) == 1 and not own["a"] and not own["b"]:
        problems.add("B", "is missing", forms)
    return models[0], models[-1] if len(models) == 1 else models[1]


def _side(
    letter: str,
    name: str | None,
    command: Sequence[str],
    common: Call,
    words: Sequence[str],
    problems: Problems,
) -> Side:
    """One side: the options for both, beneath its own."""
    told = Problems()
    own = parse(words, MODEL_OPTIONS, told, "diff")
    for word in [] if own.unknown else own.models:
        told.add(f"--{letter}.", f"{shown(word)} belongs to no option")
    call = Call(
        values=_values(common, own),
        dotted={**common.dotted, **own.dotted},
        engine={**common.engine, **own.engine},
        models=[] if name is None else [name],
        unknown=common.unknown or own.unknown,
    )
    request = read_request(call, told, command)
    given = {spelled(word) for word in words if word.startswith("-")}
    for problem in told.found:
        # That A is missing is told already.
        if name == "" and problem.where == "MODEL":
            continue
        if problem.where in given:
            where = f"--{letter}.{problem.where.lstrip('-')}"
            problem = replace(problem, where=where)
        problems.found.append(problem)
    return Side(
        name=" ".join([*([] if name is None else [name]), *command[:4], *words]),
        request=request,
        has_options=bool(call.values or call.dotted or call.engine),
        has_own=bool(words),
    )


_MODEL_NAMES: Final = frozenset(option.name for option in MODEL_OPTIONS)


def _values(common: Call, own: Call) -> dict[str, Any]:
    """One side's own values over those for both; what they contradict is theirs to decide."""
    below = {name: value for name, value in common.values.items() if name in _MODEL_NAMES}
    for name in contradicted(own.values):
        below.pop(name, None)
    return {**below, **own.values}


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
