"""A gate as annotations: what fails, at the lines of the files that demand it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from kvplan_cli.report.gate_document import GateDocument
from kvplan_cli.report.gate_words import UNPLANNED, Naming, fault_text, missed, title
from kvplan_cli.report.words import printable
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """One thing that must change before the gate passes.

    key: the expectation, or the kind of fault; with the place it stays the same from run to run.
    """

    path: str
    line: int
    title: str
    key: str
    message: str
    blocks: bool


def _findings(document: GateDocument) -> Iterator[_Finding]:
    for deployment in document.deployments:
        for each in deployment.expectations:
            if not each.holds:
                yield _Finding(
                    path=each.path,
                    line=each.line or 1,
                    title=title(deployment),
                    key=each.name,
                    message=printable(missed(each)),
                    blocks=False,
                )
        for fault in deployment.faults:
            yield _Finding(
                path=fault.path,
                line=fault.line or 1,
                title=f"{title(deployment)}: {UNPLANNED[deployment.state]}",
                key=f"{deployment.state}: {fault.where}",
                message=fault_text(fault),
                blocks=True,
            )


def github(document: GateDocument, naming: Naming) -> str:
    """Workflow commands, which GitHub shows at the lines of a pull request.

    The escapes are those of actions/toolkit ``packages/core/src/command.ts``.
    """
    lines = [
        f"::error file={_property(naming(each.path))},line={each.line},"
        f"title={_property(each.title)}::{_data(each.message)}\n"
        for each in _findings(document)
    ]
    return "".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def gitlab(document: GateDocument, naming: Naming) -> str:
    """A code quality report: what GitLab shows beside the lines of a merge request."""
    report = [
        {
            "description": f"{each.title}: {each.message}",
            "check_name": each.key if not each.blocks else "plan",
            "fingerprint": _fingerprint(each),
            "severity": "blocker" if each.blocks else "major",
            "location": {"path": naming(each.path), "lines": {"begin": each.line}},
        }
        for each in _findings(document)
    ]
    return f"{json.dumps(report, indent=2)}\n"


def _fingerprint(finding: _Finding) -> str:
    """The same finding in a later run, whatever its figures and its line."""
    text = "\0".join((finding.path, finding.title, finding.key))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
