"""kvplan as a process; with ``case``, on an answer built by hand instead of a planned one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAKE = """
import sys
from kvplan_cli import service
from tests.report.builders import CASES
case = sys.argv.pop(1)
def fit(request):
    if case == "crash":
        raise RuntimeError("two\\nlines")
    if case == "interrupt":
        raise KeyboardInterrupt
    if case == "refuse":
        from kvplan_cli.errors import EngineRefusalError
        raise EngineRefusalError(stage="config_error", error_type="ValueError", message="no")
    if case == "unknown":
        from kvplan_cli.errors import Problem, UnplannableError
        raise UnplannableError(Problem(where="config.json", reason="not known"))
    return CASES[case]()
service.fit = fit
from kvplan_cli.__main__ import main
sys.exit(main())
"""


def command(words: tuple[str, ...], case: str | None) -> list[str]:
    if case is None:
        return [sys.executable, "-m", "kvplan_cli", *words]
    return [sys.executable, "-c", FAKE, case, *words]


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    base = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    return {**base, "PYTHONPATH": str(ROOT), **(env or {})}


def kvplan(
    *words: str, case: str | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it off a terminal; stdin is closed, so a prompt would fail."""
    return subprocess.run(
        command(words, case),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        stdin=subprocess.DEVNULL,
        env=environment(env),
        timeout=300,
        check=False,
    )
