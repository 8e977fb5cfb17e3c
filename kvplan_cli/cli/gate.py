"""``kvplan gate``: a report on stdout, and others in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvplan_cli.cli.formats import known_format, read_format
from kvplan_cli.cli.gate_options import FORMATS, GATE_OPTIONS
from kvplan_cli.cli.output_files import check_writable, write_file
from kvplan_cli.cli.parser import Call, parse
from kvplan_cli.cli.progress import bar
from kvplan_cli.cli.streams import file_page, page, write
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.loader.questions import read_end
from kvplan_cli.results_gate import GateRequest
from kvplan_cli.results_solve import End
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    from kvplan_cli.report.gate_document import GateDocument
    from kvplan_cli.report.grid import Page

_STDOUT: Final = "-"
# Where a CI system checked the repository out: what annotations name files from.
_ROOTS: Final = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One report. path: None for stdout."""

    format: str
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCall:
    """What is asked, and what is written where, stdout's own first."""

    request: GateRequest
    outputs: tuple[Output, ...]


def run(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> int:
    """Check every deployment, write the reports, and say how the process ends.

    behind_dashes: a serve command, with --init. Raises: InputError where the call itself is
    wrong.
    """
    if any(word.partition("=")[0] == "--init" for word in words):
        from kvplan_cli.cli.gate_init import run as run_init

        return run_init(words, behind_dashes)
    call = read_call(words, behind_dashes)

    from kvplan_cli.report.gate_document import gate_document
    from kvplan_cli.service.gate import gate

    with bar() as tell:
        document = gate_document(gate(call.request, tell))
    problems = Problems()
    _check_not_read(call, document, problems)
    problems.finish()
    for output in call.outputs:
        if output.path is None:
            write(rendered(document, output.format, page()))
        else:
            with problems.collecting():
                write_file(output.path, rendered(document, output.format, file_page()))
    problems.finish()
    return document.exit_code


def _check_not_read(call: GateCall, document: GateDocument, problems: Problems) -> None:
    """No report may take the place of a file that was checked."""
    read = {os.path.realpath(each.path) for each in document.deployments}
    read.update(os.path.realpath(path) for path in document.bases)
    for output in call.outputs:
        if output.path is not None and os.path.realpath(output.path) in read:
            where = f"--output {output.format}={place(output.path)}"
            problems.add(where, "would be written over a file that is checked", "another name")


def rendered(document: GateDocument, format: str, page: Page) -> str:
    """A report in one of the formats. page: what a text is drawn on."""
    if format == "json":
        from kvplan_cli.report.json_form import dumps

        return f"{dumps(document)}\n"
    if format == "text":
        from kvplan_cli.report.gate_text import render_gate

        return render_gate(document, page)
    if format == "junit":
        from kvplan_cli.report.gate_junit import junit

        return junit(document, _repository_path)
    if format == "markdown":
        from kvplan_cli.report.gate_markdown import markdown

        return markdown(document)
    from kvplan_cli.report.gate_annotations import github, gitlab

    annotate = github if format == "github" else gitlab
    return annotate(document, _repository_path)


def _repository_path(path: str) -> str:
    """A file as CI systems name it: from the root of the repository, with slashes."""
    root = next((os.environ[name] for name in _ROOTS if os.environ.get(name)), None)
    if root is not None:
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(root))
        path = path if inside.startswith("..") else inside
    return Path(path).as_posix()


def read_call(words: Sequence[str], behind_dashes: Sequence[str] = ()) -> GateCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    if behind_dashes:
        problems.add("--", "gate reads no words behind it", "give files before it, or --init")
    call = parse(words, GATE_OPTIONS, problems, "gate")
    if not call.models and not call.unknown:
        way_out = "a plan file with expect:, or a pattern such as 'deploy/*.yaml'"
        problems.add("FILE", "is missing", way_out)
    on = End.LOW
    environments, deployments = (
        _names(call, noun, problems) for noun in ("environment", "deployment")
    )
    with problems.collecting():
        on = read_end(call.values.get("on", on.value))
    outputs = _outputs(call, problems)
    problems.finish()
    request = GateRequest(
        files=tuple(call.models), environments=environments, deployments=deployments, on=on
    )
    return GateCall(request=request, outputs=outputs)


def _names(call: Call, noun: str, problems: Problems) -> tuple[str, ...]:
    given = [name for text in call.values.get(f"{noun}s", ()) for name in text.split(",")]
    names = tuple(dict.fromkeys(name.strip() for name in given))
    if "" in names:
        problems.add(f"--{noun}", "an empty name", "names joined with commas")
    return names


def _outputs(call: Call, problems: Problems) -> tuple[Output, ...]:
    given = call.values
    outputs = []
    with problems.collecting():
        outputs.append(Output(format=read_format(call, FORMATS)))
    for text in given.get("output", ()):
        with problems.collecting():
            outputs.append(_output(text))
    files = [output.path for output in outputs if output.path is not None]
    for path in {path for path in files if files.count(path) > 1}:
        problems.add("--output", f"two formats into one file, {shown(str(path))}")
    return tuple(outputs)


def _output(text: str) -> Output:
    name, equals, file = text.partition("=")
    if not equals or not file:
        way_out = "FORMAT=FILE, as in junit=gate.xml"
        raise _fault("--output", f"{shown(text)} names no format or no file", way_out)
    output_format = known_format(name, FORMATS, "--output")
    if file == _STDOUT:
        return Output(format=output_format)
    path = Path(file)
    check_writable(path, "--output")
    return Output(format=output_format, path=path)


def _fault(where: str, reason: str, way_out: str | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
