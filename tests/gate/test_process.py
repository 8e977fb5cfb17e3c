"""``kvplan gate`` as a process: what is on stdout, what in files, and how it ends."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.process import command, environment
from tests.gate.files import write_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "repository" / "deploy")


def gate(
    folder: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(("gate", *words), None),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(env),
        cwd=folder,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("chat.yaml", "--environment", "prod"), 0),
        (("chat.yaml",), 1),
        (("chat.yaml", "broken.yaml"), 2),
        (("*.yaml",), 2),
        (("unknown.yaml", "chat.yaml"), 3),
        (("unknown.yaml", "broken.yaml"), 2),
    ],
)
def test_endings(folder: Path, words: tuple[str, ...], code: int) -> None:
    unknown = "model: {architectures: [NoSuchForCausalLM], model_type: x}\nkv-mem: 1GiB"
    write_files(folder, {"unknown.yaml": unknown})
    ended = gate(folder, *words)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.splitlines()[-1].startswith("Passed" if code == 0 else "Failed")


def test_several_reports_at_a_time(folder: Path) -> None:
    ended = gate(
        folder,
        "chat.yaml",
        *("--output", "junit=gate.xml", "--output", "json=gate.json"),
        *("--output", "markdown=gate.md", "--output", "text=gate.txt", "--output", "github=-"),
        env={"COLUMNS": "120"},
    )
    assert ended.returncode == 1
    text, _, annotations = ended.stdout.partition("::error ")
    assert text == (folder / "gate.txt").read_text(encoding="utf-8")
    assert annotations.startswith("file=chat.yaml,line=13,")
    assert ET.parse(folder / "gate.xml").getroot().get("failures") == "1"
    assert json.loads((folder / "gate.json").read_text())["deployments_fail"] == 1
    assert (folder / "gate.md").read_text().startswith("<!-- kvplan gate -->\n")


@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_annotations_name_files_from_the_repository(folder: Path, variable: str) -> None:
    root = str(folder.parent)
    for file in ("chat.yaml", str(folder / "chat.yaml")):
        ended = gate(folder, file, "--format", "github", env={variable: root})
        assert "file=deploy/chat.yaml," in ended.stdout
    report = json.loads(
        gate(folder, "chat.yaml", "--format", "gitlab", env={variable: root}).stdout
    )
    assert report[0]["location"]["path"] == "deploy/chat.yaml"
    # A file from elsewhere keeps its name.
    outside = gate(folder, "chat.yaml", "--format", "github", env={variable: "/no/such"})
    assert "file=chat.yaml," in outside.stdout


def test_json_and_its_errors(folder: Path) -> None:
    document = json.loads(gate(folder, "*.yaml", "--json").stdout)
    assert document["exit_code"] == 2
    assert document["bases"] == ["base.yaml"]
    ended = gate(folder, "--json", "chat.yaml", "--environment", "prd")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert json.loads(ended.stderr)["problems"][0]["where"] == "--environment"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "FILE: is missing"),
        (("a.yaml", "--format", "junitt"), "did you mean junit?"),
        (("a.yaml", "--format", "text", "--json"), "contradict each other"),
        (("a.yaml", "--output", "gate.xml"), "as in junit=gate.xml"),
        (("a.yaml", "--output", "xml=gate.xml"), "'xml' is no format"),
        (("a.yaml", "--output", "junit=no/such/gate.xml"), "there is no folder no/such"),
        (("a.yaml", "--output", "junit=."), "a folder where a file is needed"),
        (("a.yaml", "--output", "json=x", "--output", "junit=x"), "two formats into one file"),
        (("a.yaml", "--on", "middle"), "one of low, likely, high"),
        (("a.yaml", "--environment", "a,,b"), "an empty name"),
        (("a.yaml", "--gpu", "h100"), "there is no such option"),
        (("a.yaml", "--", "vllm", "serve"), "gate reads no words behind it"),
    ],
)
def test_wrong_calls(folder: Path, words: tuple[str, ...], told: str) -> None:
    ended = gate(folder, *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr


def test_a_report_that_cannot_be_written_is_told_behind_the_others(folder: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full")
    ended = gate(folder, "chat.yaml", "--output", f"junit={full}", "--output", "json=gate.json")
    assert ended.returncode == 2
    assert "can't be written" in ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("Failed")
    assert (folder / "gate.json").exists()


def test_no_report_goes_over_a_file_that_is_checked(folder: Path) -> None:
    before = (folder / "chat.yaml").read_text()
    ended = gate(folder, "ch*.yaml", "--output", "json=chat.yaml")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "over a file that is checked" in ended.stderr
    assert (folder / "chat.yaml").read_text() == before


def test_hundreds_of_files(folder: Path) -> None:
    write_files(
        folder / "many",
        {
            f"{n:04}.yaml": f"model: llama-3.1-8b\nkv-mem: 40GiB\nmax-model-len: {1000 + n}\n"
            f"expect: {{min-concurrency: {n + 1}}}"
            for n in range(300)
        },
    )
    ended = gate(folder, "many/*.yaml", "--output", "junit=gate.xml")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.splitlines()[-1].startswith("Failed: ")
    root = ET.parse(folder / "gate.xml").getroot()
    assert root.get("tests") == "600"
    assert len(root) == 300


def test_the_help_shows_calls_that_work(folder: Path) -> None:
    ended = gate(folder, "--help")
    assert ended.returncode == 0
    assert "kvplan gate deploy/*.yaml --output junit=gate.xml" in ended.stdout
    assert "70, then 2, 3, 1" in ended.stdout


def test_fit_plans_the_same_environment(folder: Path) -> None:
    words = ("fit", "chat.yaml", "--environment", "dev", "--get", "plan.max_concurrency_requests")
    ended = subprocess.run(
        command(words, None), capture_output=True, text=True, env=environment(), cwd=folder
    )
    assert ended.stdout == "5.0\n"
