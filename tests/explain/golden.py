"""Golden outputs of ``explain``, one folder a case: both widths, ASCII, Markdown,
and the JSON beside fit's.

``python -m tests.explain.golden`` writes them anew; read the difference before committing it.
All memory is given, so that no estimate can move them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from kvplan_cli.cli.fit import read_call
from kvplan_cli.report.explain_document import ExplainDocument, explain_document
from kvplan_cli.report.explain_markdown import markdown
from kvplan_cli.report.explain_text import render_explain
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import plain
from kvplan_cli.results_explain import ExplainResult
from kvplan_cli.service.explain import explain

FOLDER: Final = Path(__file__).parent / "golden"
VERSION: Final = "0.0.0"

CASES: Final = {
    "windows": "gemma-3-27b --kv-mem 18GiB",
    "windows-kept-like-full": "gemma-3-27b --kv-mem 40GiB --disable-hybrid-kv-cache-manager",
    "chunks": "llama-4-scout --kv-mem 20GiB -tp 8 --max-model-len 131072",
    "replicas": "gpt-oss-120b --kv-mem 20GiB -tp 16",
    "unequal-stages": "llama-3.1-8b --kv-mem 9GiB,10GiB -pp 2",
    "does-not-fit": "llama-3.1-8b --kv-mem 12GiB",
    "nothing-left": "qwen3-32b --kv-mem 1MiB",
}


@cache
def explained(case: str) -> ExplainResult:
    return explain(read_call(CASES[case].split()).request)


def document(case: str) -> ExplainDocument:
    """The document of a case, with a fixed program version."""
    made = explain_document(explained(case))
    fit = made.fit._replace(kvplan_version=VERSION)
    return made._replace(kvplan_version=VERSION, fit=fit)


def outputs(case: str) -> Mapping[str, str]:
    """File name to what should stand in it."""
    made = document(case)
    beside_fit = {key: value for key, value in plain(made).items() if key != "fit"}
    return {
        "80.txt": render_explain(made, Page(width=80)),
        "120.txt": render_explain(made, Page(width=120)),
        "ascii.txt": render_explain(made, Page(width=80, ascii_only=True)),
        "explain.md": markdown(made),
        "explain.json": f"{json.dumps(beside_fit, indent=1)}\n",
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
