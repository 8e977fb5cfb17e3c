"""Golden outputs of ``solve`` and ``sweep``, one folder a case.

``python -m tests.capacity.golden`` writes them anew; read the difference before committing it.
All memory is given, so that no estimate can move them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kvplan_cli.cli.solve import read_call as read_solve
from kvplan_cli.cli.sweep import read_call as read_sweep
from kvplan_cli.report import sweep_rows
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.report.plot_text import plot_text
from kvplan_cli.report.series import picture
from kvplan_cli.report.solve_document import SolveDocument, solve_document
from kvplan_cli.report.solve_text import render_solve
from kvplan_cli.report.sweep_document import SweepDocument, sweep_document
from kvplan_cli.report.sweep_text import render_sweep
from kvplan_cli.service.select import select
from kvplan_cli.service.solve import solve
from kvplan_cli.service.sweep import sweep

FOLDER: Final = Path(__file__).parent / "golden"
VERSION: Final = "0.0.0"

SOLVED: Final = {
    "solve-mix": "gemma-3-27b --for kv-mem --requests 4096:100,131072:2",
    "solve-length": "llama-3.1-8b --for max-model-len --kv-mem 40GiB --concurrency 8",
    "solve-ranks": "llama-3.1-70b --for tensor-parallel-size --kv-mem 20GiB --concurrency 8",
    "solve-dtype": "qwen3-32b --for kv-cache-dtype --kv-mem 20GiB --concurrency 3",
    "solve-none": "llama-3.1-8b --for max-model-len --kv-mem 40GiB --requests 8192:1000",
    "solve-stages": "llama-3.1-8b --for concurrency --kv-mem 9GiB,10GiB -pp 2",
}
SWEPT: Final = {
    "sweep-ranks": "llama-3.1-70b --kv-mem 30GiB --vary tp=1,2,3,4,8 "
    "--vary max-model-len=8k..128k*4",
    "sweep-sorted": "gemma-3-27b --vary kv-mem=10GiB,40GiB --vary kv-cache-dtype=auto,fp8 "
    "--vary max-model-len=auto --where max_model_len>=40000 --sort kv_mem,-max_concurrency",
    "sweep-none": "llama-3.1-8b --kv-mem 1GiB --vary max-model-len=64k,128k",
    "sweep-unlike": "gpt-oss-20b --kv-mem 20GiB --vary enforce-eager=true,false "
    "--vary block-size=default,7,64",
}


def solved(case: str) -> SolveDocument:
    """The document of a case, with a fixed program version."""
    document = solve_document(solve(read_solve(SOLVED[case].split()).request))
    return document._replace(kvplan_version=VERSION)


def swept(case: str) -> tuple[SweepDocument, Mapping[str, str]]:
    """The document of a case, and its texts by file name."""
    call = read_sweep(SWEPT[case].split())
    result = sweep(call.request)
    selection = select(result.rows, result.axes, call.where, call.order)
    document = sweep_document(result, selection)._replace(kvplan_version=VERSION)
    texts = {"rows.csv": sweep_rows.csv_text(document), "rows.md": sweep_rows.markdown(document)}
    texts["rows.jsonl"] = sweep_rows.json_lines(document)
    if case == "sweep-ranks":
        drawn = picture("", result.axes, selection, "max_concurrency")
        texts["plot.txt"] = plot_text(drawn, Page(width=80)) + "\n"
        texts["plot-ascii.txt"] = plot_text(drawn, Page(width=60, ascii_only=True)) + "\n"
    return document, texts


def outputs(case: str) -> Mapping[str, str]:
    """File name to what should stand in it."""
    if case in SOLVED:
        asked = solved(case)
        tables = {f"{w}.txt": render_solve(asked, Page(width=w)) for w in (80, 120)}
        return {**tables, "document.json": f"{dumps(asked)}\n"}
    document, texts = swept(case)
    tables = {f"{w}.txt": render_sweep(document, Page(width=w), 40) for w in (80, 120)}
    return {**tables, **texts, "document.json": f"{dumps(document)}\n"}


def write() -> None:
    """Write all goldens."""
    for case in (*SOLVED, *SWEPT):
        folder = FOLDER / case
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in outputs(case).items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
