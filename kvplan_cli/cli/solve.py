"""``kvplan solve``: the bare value on stdout, the rest on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from kvplan_cli.cli.parser import Call, parse
from kvplan_cli.cli.request import read_request
from kvplan_cli.cli.solve_options import SOLVE_OPTIONS
from kvplan_cli.cli.streams import page, write, write_error
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems, nearest, shown
from kvplan_cli.loader.request_mix import MOST_REQUESTS, read_mix
from kvplan_cli.loader.sizes import parse_engine_integer, parse_size
from kvplan_cli.results_solve import End, Needs, Quantity, Requests, SolveRequest
from kvplan_cli.values import dataclass

_QUANTITIES: Final = tuple(quantity.value for quantity in Quantity)
_LONGEST_NUMBER: Final = 40
# What takes a step, and how it is written.
_FRACTIONS: Final = (Quantity.GPU_MEMORY_UTILIZATION, Quantity.CONCURRENCY)
_SIZES: Final = (Quantity.KV_MEM, Quantity.GPU_MEM)
_ENUMERATED: Final = (Quantity.TENSOR_PARALLEL_SIZE, Quantity.KV_CACHE_DTYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveCall:
    """What is asked, and how the answer is shown."""

    request: SolveRequest
    as_json: bool = False
    quiet: bool = False


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Solve, write the value, and say how the process ends.

    behind_dashes: a serve command, in place of MODEL. Raises: KvplanError where there is no plan.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli.report.solve_document import solve_document
    from kvplan_cli.service.solve import solve

    document = solve_document(solve(call.request))
    if call.as_json:
        from kvplan_cli.report.json_form import dumps

        write(f"{dumps(document)}\n")
        return document.exit_code
    if not call.quiet:
        from kvplan_cli.report.solve_text import render_solve

        write_error(render_solve(document, page(sys.stderr)))
    if document.text is not None:
        write(f"{document.text}\n")
    return document.exit_code


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> SolveCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, SOLVE_OPTIONS, problems, "solve")
    fit = read_request(call, problems, behind_dashes)
    quantity, step = None, None
    with problems.collecting():
        quantity = _quantity(call.values.get("for"))
        _check_sought(call, quantity)
    with problems.collecting():
        if quantity is not None and "step" in call.values:
            step = _step(call.values["step"], quantity)
    needs, on = _needs(call, problems), End.LOW
    with problems.collecting():
        on = read_end(call)
    problems.finish()
    assert quantity is not None
    return SolveCall(
        request=SolveRequest(fit=fit, quantity=quantity, needs=needs, on=on, step=step),
        as_json=bool(call.values.get("json")),
        quiet=bool(call.values.get("quiet")),
    )


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def _quantity(word: str | None) -> Quantity:
    legal = f"one of {', '.join(_QUANTITIES)}"
    if word is None:
        raise _fault("--for", "is missing", legal)
    name = word.replace("_", "-")
    if name not in _QUANTITIES:
        near = nearest(name, _QUANTITIES)
        hint = f"did you mean {near}? " if near else ""
        raise _fault("--for", f"{shown(word)} can't be solved for", f"{hint}{legal}")
    return Quantity(name)


def _check_sought(call: Call, quantity: Quantity) -> None:
    """What is sought must not be given as well."""
    if quantity.value.replace("-", "_") in call.values:
        where = f"--for {quantity.value} and --{quantity.value}"
        raise _fault(where, "ask for what is given", f"drop --{quantity.value}")


def _needs(call: Call, problems: Problems) -> Needs:
    concurrency: Fraction | None = None
    requests: tuple[Requests, ...] = ()
    with problems.collecting():
        if "concurrency" in call.values:
            concurrency = _requests_at_a_time(call.values["concurrency"])
    with problems.collecting():
        if "requests" in call.values:
            requests = read_mix(call.values["requests"], "--requests")
    return Needs(concurrency=concurrency, requests=requests)


def _requests_at_a_time(text: str) -> Fraction:
    number = _decimal(text)
    if number is None or not 0 < number <= MOST_REQUESTS:
        reason = f"{shown(text)} is not a number of requests"
        raise _fault("--concurrency", reason, "a number above 0, as in 8 or 2.5")
    return Fraction(number)


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and len(text) < _LONGEST_NUMBER else None


def _step(text: str, quantity: Quantity) -> Decimal:
    if quantity in _ENUMERATED:
        raise _fault("--step", f"{quantity.value} has no step", "leave it out")
    if quantity in _SIZES:
        # A step may be smaller than what a size of memory may be.
        return Decimal(int(text) if text.isdecimal() and len(text) < 20 else _size(text)) or _odd()
    if quantity in _FRACTIONS:
        number = _decimal(text)
        if number is None or not Decimal("0.000001") <= number <= 1:
            raise _fault("--step", f"{shown(text)} is no step", "above 0 up to 1, as in 0.005")
        return number
    return Decimal(max(0, parse_engine_integer(text, "--step"))) or _odd()


def _size(text: str) -> int:
    return parse_size(text, "--step")


def _odd() -> Decimal:
    raise _fault("--step", "a step of nothing", "leave it out, or give one above 0")


def read_end(call: Call) -> End:
    """``--on``: which end of an estimated memory decides. Raises: InputError."""
    word = call.values.get("on", End.LOW.value)
    ends = [end.value for end in End]
    if word not in ends:
        raise _fault("--on", f"{shown(word)} is no end", f"one of {', '.join(ends)}")
    return End(word)
