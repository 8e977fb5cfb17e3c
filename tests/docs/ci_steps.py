"""The shell steps of the examples for CI systems, as those systems run them.

``python -m tests.docs.ci_steps FILE`` prints them as one script; ``.ci/run`` runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def steps(text: str) -> list[str]:
    """The scripts of every job of a GitHub workflow or a GitLab file, in order."""
    document = yaml.safe_load(text)
    jobs = document.get("jobs", document)
    return [step for job in jobs.values() if isinstance(job, Mapping) for step in _of_job(job)]


def _of_job(job: Mapping[str, Any]) -> list[str]:
    if "steps" in job:
        return [str(step["run"]) for step in job["steps"] if "run" in step]
    return [str(line) for line in job["script"]]


def script(text: str) -> str:
    """All steps as one shell script that stops at the first that fails."""
    return "\n".join(["set -eo pipefail", *steps(text), ""])


if __name__ == "__main__":
    print(script(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
