"""The examples for CI systems do what they promise, on the deployments of ``examples/``."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.docs.ci_steps import script, steps
from tests.docs.test_readme import README, ROOT

CI = ROOT / "examples" / "ci"
GITHUB = (CI / "github-actions.yml").read_text(encoding="utf-8")
GITLAB = (CI / "gitlab-ci.yml").read_text(encoding="utf-8")
# The five lines that the README shows.
PASTED = re.findall(r"```yaml\n(kvplan:\n.*?)```", README, re.DOTALL)
# A job on a machine of the CI system: the program is this tree's, pip only looks at the name.
PRELUDE = """
kvplan() {{ PYTHONPATH={root} {python} -m kvplan_cli "$@"; }}
pip() {{ [ "$1 $2 $3" = "install -q {name}" ]; }}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "deploy", tmp_path / "deploy")
    return tmp_path


def run(text: str, repository: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The job's steps in a repository, as its CI system runs them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prelude = PRELUDE.format(
        root=shlex.quote(str(ROOT)), python=shlex.quote(sys.executable), name=project["name"]
    )
    return subprocess.run(
        ["bash", "-c", prelude + script(text)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        cwd=repository,
        check=False,
    )


def shrink(repository: Path) -> None:
    """A change that takes half the cards from a deployment."""
    chat = repository / "deploy" / "chat.yaml"
    text = chat.read_text(encoding="utf-8")
    assert "tensor-parallel-size: 4" in text
    chat.write_text(text.replace("tensor-parallel-size: 4", "tensor-parallel-size: 2"))


@pytest.mark.parametrize("text", [GITHUB, GITLAB, *PASTED], ids=["github", "gitlab", "readme"])
def test_a_job_passes_and_fails_with_its_deployments(text: str, repository: Path) -> None:
    summary = str(repository / "summary.md")
    ended = run(text, repository, GITHUB_STEP_SUMMARY=summary)
    assert (ended.returncode, ended.stderr) == (0, "")
    shrink(repository)
    ended = run(text, repository, GITHUB_STEP_SUMMARY=summary)
    assert (ended.returncode, ended.stderr) == (1, "")
    junit = ET.parse(repository / "gate.xml").getroot()
    assert int(junit.get("failures", "0")) >= 1


def test_github_gets_annotations_and_a_summary(repository: Path) -> None:
    shrink(repository)
    summary = repository / "summary.md"
    ended = run(
        GITHUB, repository, GITHUB_STEP_SUMMARY=str(summary), GITHUB_WORKSPACE=str(repository)
    )
    annotations = [line for line in ended.stdout.splitlines() if line.startswith("::error ")]
    assert annotations
    assert all(line.startswith("::error file=deploy/chat.yaml,line=") for line in annotations)
    assert summary.read_text(encoding="utf-8").startswith("<!-- kvplan gate -->\n### kvplan gate")


def test_gitlab_gets_what_its_reports_name(repository: Path) -> None:
    shrink(repository)
    run(GITLAB, repository, CI_PROJECT_DIR=str(repository))
    reports = yaml.safe_load(GITLAB)["kvplan"]["artifacts"]["reports"]
    assert ET.parse(repository / reports["junit"]).getroot().tag == "testsuites"
    quality: list[dict[str, Any]] = json.loads((repository / reports["codequality"]).read_text())
    assert {each["location"]["path"] for each in quality} == {"deploy/chat.yaml"}


def test_github_keeps_the_report_that_the_gate_writes() -> None:
    (job,) = yaml.safe_load(GITHUB)["jobs"].values()
    upload = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert f"junit={upload['with']['path']}" in "".join(steps(GITHUB))
    # It must be kept where the gate fails, too.
    assert upload["if"] == "always()"


def test_the_readme_shows_one_job_of_five_lines() -> None:
    (pasted,) = PASTED
    assert len(pasted.splitlines()) == 5


def test_ci_runs_the_examples_as_they_stand() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for path in CI.iterdir():
        assert f"examples/ci/{path.name}" in text
