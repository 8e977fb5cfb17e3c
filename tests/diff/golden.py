"""Golden outputs of ``diff``, one folder a case.

``python -m tests.diff.golden`` writes them anew; read the difference before committing it.
All memory is given, so that no estimate can move them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kvplan_cli.cli.diff import read_call
from kvplan_cli.report.diff_document import DiffDocument, diff_document
from kvplan_cli.report.diff_markdown import markdown
from kvplan_cli.report.diff_text import render_diff
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.service.diff import diff
from tests.gate.golden import in_folder

FOLDER: Final = Path(__file__).parent / "golden"
VERSION: Final = "0.0.0"
CASES: Final = {
    "flags": "gemma-3-27b --kv-mem 40GiB --b.kv-cache-dtype fp8 --b.max-model-len 64k "
    "--b.max-num-batched-tokens 2048",
    "models": "qwen3-32b gpt-oss-20b --kv-mem 20GiB --max-model-len 32768",
    "releases": "gemma-3-27b --kv-mem 20GiB --a.engine-version 0.25.1",
    "environments": "chat.yaml --a.environment prod --b.environment dev",
    "refused": "llama-3.1-8b --a.kv-mem 40GiB --b.kv-mem 1GiB",
    "same": "llama-3.1-8b llama-3.1-8b --kv-mem 40GiB",
}


def compared(words: str) -> DiffDocument:
    """The document of a call in the folder of the gate's files, with a fixed version."""
    with in_folder():
        document = diff_document(diff(read_call(words.split()).request))
    return document._replace(
        kvplan_version=VERSION,
        a=document.a._replace(kvplan_version=VERSION),
        b=document.b._replace(kvplan_version=VERSION),
    )


def outputs(case: str) -> Mapping[str, str]:
    """File name to what should stand in it."""
    document = compared(CASES[case])
    return {
        "80.txt": render_diff(document, Page(width=80)),
        "120.txt": render_diff(document, Page(width=120)),
        "document.json": f"{dumps(document)}\n",
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
