"""The README says what the program does: its runs, its tables, its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan_cli import __version__
from kvplan_cli.errors import ExitCode
from kvplan_cli.loader.engine_flags import engine_spellings
from kvplan_cli.loader.flags import FLAGS
from tests.docs.json_table import TABLES, json_table, marks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


def shell(command: str, columns: int = 100) -> str:
    """What a terminal shows of a line typed there, with this tree's program as ``kvplan``."""
    program = shlex.join([sys.executable, "-m", "kvplan_cli"])
    ended = subprocess.run(
        ["bash", "-c", f'kvplan() {{ {program} "$@"; }}\n{command}'],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )
    return ended.stdout


def kvplan(words: list[str], columns: int = 100) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT)}
    environment.pop("NO_COLOR", None)
    return subprocess.run(
        [sys.executable, "-m", "kvplan_cli", *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )


@pytest.mark.parametrize("block", CONSOLE, ids=[block.splitlines()[0] for block in CONSOLE])
def test_every_shown_run_is_real(block: str) -> None:
    # A line may use what the one before it set, as in a terminal.
    typed, seen = "", ""
    for run in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = run.partition("\n")
        typed, seen = f"{typed}{command}\n", seen + shown
        assert shell(typed) == seen


def test_the_first_run_opens_the_readme() -> None:
    assert README.index("```console") < README.index("## Two commands")


def test_ci_calls_the_same_test_command() -> None:
    command = next(block.strip() for block in SHELL if "pytest" in block)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert command in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_install_command_runs_a_shown_command() -> None:
    command = next(block.strip() for block in SHELL if "pip install -q ." in block)
    shown = command.rpartition("&& .venv/bin/")[2]
    assert any(block.startswith(f"$ {shown}\n") for block in CONSOLE)


@pytest.mark.parametrize("word", TABLES)
def test_json_keys_are_documented(word: str) -> None:
    start, end = marks(word)
    shown = README.partition(f"{start}\n")[2].partition(f"\n{end}")[0]
    assert shown == json_table(TABLES[word])


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_documented(code: ExitCode) -> None:
    assert f"| {int(code)} | " in README


def test_flags_named_in_the_readme_exist() -> None:
    commands = ("fit", "explain", "solve", "sweep", "verify", "gate", "diff")
    help_text = "".join(kvplan([name, "--help"]).stdout for name in commands)
    named = set(re.findall(r"`(--[a-z-]+)", README))
    for flag in named - {"--help", "--hf-overrides"}:
        assert flag in help_text or flag in engine_spellings() or flag == "--debug"


def test_help_lists_every_flag_that_counts() -> None:
    help_text = kvplan(["fit", "--help"]).stdout
    for flag in FLAGS:
        assert flag.option in help_text or any(n in help_text for n in flag.negations)


def test_changelog_names_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {__version__}\n" in changelog
    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert kvplan(["--version"]).stdout == f"kvplan {__version__}\n"


def test_the_readmes_python_is_the_example() -> None:
    (block,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    source = ROOT / "examples" / "library.py"
    assert block[0] == source.read_text(encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(source)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert ended.stdout == block[1]
    assert block[1] == (ROOT / "examples/outputs/library.txt").read_text(encoding="utf-8")
