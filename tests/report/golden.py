"""Golden outputs, one folder a case: ``80.txt``, ``120.txt`` and ``fit.json``.

``python -m tests.report.golden`` writes them anew; read the difference before committing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kvplan_cli.report.build import fit_document
from kvplan_cli.report.document import FitDocument
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.report.tables import render
from tests.report.builders import CASES

FOLDER: Final = Path(__file__).parent / "golden"
# The program's version is in every document; goldens must outlive a release.
VERSION: Final = "0.0.0"


def document(case: str) -> FitDocument:
    """The document of a case, with a fixed program version."""
    return fit_document(CASES[case]())._replace(kvplan_version=VERSION)


def outputs(case: str) -> Mapping[str, str]:
    """File name to what should stand in it."""
    made = document(case)
    return {
        "80.txt": render(made, Page(width=80)),
        "120.txt": render(made, Page(width=120)),
        "fit.json": f"{dumps(made)}\n",
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
