"""``kvplan gate --init``: a first plan file, never over one that is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from kvplan_cli.cli.gate_options import INIT_OPTIONS
from kvplan_cli.cli.output_files import check_writable, write_file
from kvplan_cli.cli.parser import parse
from kvplan_cli.cli.request import read_request
from kvplan_cli.cli.streams import page, write, write_error
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.loader.questions import read_end
from kvplan_cli.results_gate import DraftRequest, GateRequest
from kvplan_cli.results_solve import End
from kvplan_cli.values import dataclass

_STDOUT: Final = "-"
_MARGIN: Final = Fraction(5, 100)
_MARGIN_FORM: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*(%?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitCall:
    """What is asked. to_stdout: the file goes to stdout. force: over what is there."""

    request: DraftRequest
    to_stdout: bool = False
    force: bool = False


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Write the file, check it, and say how the process ends.

    behind_dashes: a serve command in place of MODEL. Raises: KvplanError where there is no plan,
    or it does not fit.
    """
    call = read_call(words, behind_dashes)

    from kvplan_cli.report.plan_yaml import plan_yaml
    from kvplan_cli.service.gate_draft import draft

    text = plan_yaml(draft(call.request))
    if call.to_stdout:
        write(text)
        return 0
    path = call.request.path
    write_file(path, text, over=call.force)

    from kvplan_cli.report.gate_document import gate_document
    from kvplan_cli.report.gate_text import render_gate
    from kvplan_cli.service.gate import gate

    document = gate_document(gate(GateRequest(files=(str(path),), on=call.request.on)))
    write(render_gate(document, page()))
    write_error(f"kvplan: wrote {place(path)}\n")
    return document.exit_code


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> InitCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, INIT_OPTIONS, problems, "gate")
    fit = read_request(call, problems, behind_dashes)
    name, force = call.values.get("init", ""), bool(call.values.get("force"))
    path, on, margin = Path(name), End.LOW, _MARGIN
    with problems.collecting():
        if name != _STDOUT:
            _check_path(path, force=force)
    with problems.collecting():
        on = read_end(call.values.get("on", End.LOW.value))
    with problems.collecting():
        margin = _margin(call.values.get("margin"))
    problems.finish()
    request = DraftRequest(fit=fit, path=path, margin=margin, on=on)
    return InitCall(request=request, to_stdout=name == _STDOUT, force=force)


def _check_path(path: Path, *, force: bool) -> None:
    where = f"--init {place(path)}"
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise _fault(where, "a plan file is YAML", "name it .yaml")
    if path.exists() and not path.is_dir() and not force:
        raise _fault(where, "the file is there already", "another name, or --force")
    check_writable(path, "--init")


def _margin(text: str | None) -> Fraction:
    if text is None:
        return _MARGIN
    matched = _MARGIN_FORM.fullmatch(text.strip())
    if matched is None:
        raise _fault("--margin", f"{shown(text)} is no margin", "as in 5% or 0.05")
    margin = Fraction(matched[1]) / (100 if matched[2] else 1)
    if margin >= 1:
        raise _fault("--margin", f"{shown(text)} leaves nothing to expect", "as in 5% or 0.05")
    return margin


def _fault(where: str, reason: str, way_out: str) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
