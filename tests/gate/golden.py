"""Golden outputs of ``gate``, one folder a case.

``python -m tests.gate.golden`` writes them anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kvplan_cli.cli.gate import read_call
from kvplan_cli.report.gate_annotations import github, gitlab
from kvplan_cli.report.gate_document import GateDocument, gate_document
from kvplan_cli.report.gate_junit import junit
from kvplan_cli.report.gate_markdown import markdown
from kvplan_cli.report.gate_text import render_gate
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.service.gate import gate
from tests.gate.files import write_files

FOLDER: Final = Path(__file__).parent / "golden"
VERSION: Final = "0.0.0"
CASES: Final = {
    "all": "*.yaml nothing-*.yaml",
    "passing": "chat.yaml --environment prod",
    "one": "chat.yaml --environment dev",
}


@contextmanager
def in_folder() -> Iterator[Path]:
    """A folder with the tests' files, as the working directory."""
    before = Path.cwd()
    with TemporaryDirectory() as name:
        folder = write_files(Path(name))
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def gated(words: str) -> GateDocument:
    """The document of a call in that folder, with a fixed program version."""
    with in_folder():
        document = gate_document(gate(read_call(words.split()).request))
    return document._replace(kvplan_version=VERSION)


def outputs(case: str) -> Mapping[str, str]:
    """File name to what should stand in it."""
    document = gated(CASES[case])
    return {
        "80.txt": render_gate(document, Page(width=80)),
        "120.txt": render_gate(document, Page(width=120)),
        "document.json": f"{dumps(document)}\n",
        "junit.xml": junit(document, str),
        "github.txt": github(document, str),
        "gitlab.json": gitlab(document, str),
        "comment.md": markdown(document),
    }


def write() -> None:
    """Write all goldens."""
    for case in CASES:
        folder = FOLDER / case
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in outputs(case).items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
