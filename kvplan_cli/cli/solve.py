"""``kvplan solve``: the bare value on stdout, the rest on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction

from kvplan_cli.cli.fit import write_flags
from kvplan_cli.cli.parser import Call, parse
from kvplan_cli.cli.request import read_form, read_request
from kvplan_cli.cli.solve_options import SOLVE_OPTIONS
from kvplan_cli.cli.streams import page, write, write_error
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems
from kvplan_cli.loader.questions import read_concurrency, read_end, read_quantity, read_step
from kvplan_cli.loader.request_mix import read_mix
from kvplan_cli.results_solve import End, Needs, Quantity, Requests, SolveRequest
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveCall:
    """What is asked, and how the answer is shown."""

    request: SolveRequest
    as_json: bool = False
    quiet: bool = False
    emit: str | None = None


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Solve, write the value, and say how the process ends.

    behind_dashes: a serve command, in place of MODEL. Raises: KvplanError where there is no plan.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli.report.solve_document import solve_document
    from kvplan_cli.service.solve import solve

    result = solve(call.request)
    document = solve_document(result)
    if call.as_json:
        from kvplan_cli.report.json_form import dumps

        write(f"{dumps(document)}\n")
        return document.exit_code
    if not call.quiet:
        from kvplan_cli.report.solve_text import render_solve

        write_error(render_solve(document, page(sys.stderr)))
    if call.emit is not None:
        write_flags(result.serving, call.emit, fits=document.text is not None)
    elif document.text is not None:
        write(f"{document.text}\n")
    return document.exit_code


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> SolveCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, SOLVE_OPTIONS, problems, "solve")
    fit = read_request(call, problems, behind_dashes)
    quantity, step = None, None
    with problems.collecting():
        quantity = read_quantity(call.values.get("for"))
        _check_sought(call, quantity)
    with problems.collecting():
        if quantity is not None and "step" in call.values:
            step = read_step(call.values["step"], quantity)
    needs, on = _needs(call, problems), End.LOW
    with problems.collecting():
        on = read_end(call.values.get("on", on.value))
    emit = read_form(call, problems)
    problems.finish()
    assert quantity is not None
    return SolveCall(
        request=SolveRequest(fit=fit, quantity=quantity, needs=needs, on=on, step=step),
        as_json=bool(call.values.get("json")),
        quiet=bool(call.values.get("quiet")),
        emit=emit,
    )


def _check_sought(call: Call, quantity: Quantity) -> None:
    """What is sought must not be given as well."""
    if quantity.value.replace("-", "_") in call.values:
        where = f"--for {quantity.value} and --{quantity.value}"
        raise InputError(
            Problem(where=where, reason="ask for what is given", way_out=f"drop --{quantity.value}")
        )


def _needs(call: Call, problems: Problems) -> Needs:
    concurrency: Fraction | None = None
    requests: tuple[Requests, ...] = ()
    with problems.collecting():
        if "concurrency" in call.values:
            concurrency = read_concurrency(call.values["concurrency"])
    with problems.collecting():
        if "requests" in call.values:
            requests = read_mix(call.values["requests"], "--requests")
    return Needs(concurrency=concurrency, requests=requests)
