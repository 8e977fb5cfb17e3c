"""Completion as a shell asks for it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan_cli.cli.app import app
from kvplan_cli.cli.completed import COMMANDS, options_of
from kvplan_cli.cli.completion import completions
from tests.cli.process import environment, kvplan


def test_every_command_is_completed() -> None:
    named = {command.name for command in app.registered_commands}
    assert named == set(COMMANDS)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("f", ["fit"]),
        ("fit --gpu-m", ["--gpu-mem", "--gpu-memory-utilization"]),
        ("fit --gpu h1", ["h100", "h100-nvl"]),
        ("fit --gpu = h1", ["h100", "h100-nvl"]),
        ("fit --dtype b", ["bfloat16"]),
        ("fit --kv-cache-dtype fp8_e", ["fp8_e4m3", "fp8_e5m2"]),
        ("fit llama-3.1-8", ["llama-3.1-8b"]),
        ("fit llama-3.1-8b --no-enforce", ["--no-enforce-eager"]),
        ("fit --emit s", ["serve"]),
        ("solve m --for kv-c", ["kv-cache-dtype"]),
        ("solve m --on l", ["low", "likely"]),
        ("sweep m --format c", ["csv"]),
        ("schema g", ["gate", "gpus"]),
        ("gpus --j", ["--json"]),
        ("fit -- vllm s", []),
        ("nothing x", []),
    ],
)
def test_words(line: str, found: list[str]) -> None:
    *before, begun = line.split(" ")
    assert completions(before, begun) == found


def test_every_command_has_options() -> None:
    assert all(options_of(command) for command in COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_protocol(shell: str) -> None:
    source = kvplan(env={"_KVPLAN_COMPLETE": f"{shell}_source"}).stdout
    assert f"_KVPLAN_COMPLETE={shell}_complete" in source
    words, at = (
        ("kvplan fit --gpu h2", "h2") if shell == "fish" else ("kvplan\nfit\n--gpu\nh2", "3")
    )
    asked = {"_KVPLAN_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": at}
    assert kvplan(env=asked).stdout.split() == ["h200", "h20"]


def test_a_shell_that_is_not_known() -> None:
    done = kvplan(env={"_KVPLAN_COMPLETE": "tcsh_source"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "bash_source" in done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "kvplan"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kvplan_cli "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(_KVPLAN_COMPLETE=bash_source kvplan)"
        COMP_WORDS=(kvplan solve --for max-num) COMP_CWORD=3
        _kvplan_completion kvplan
        echo "${COMPREPLY[@]}"
        complete -p kvplan
    """
    env = environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=env, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    completed, registered = done.stdout.splitlines()
    assert completed == "max-num-batched-tokens max-num-seqs"
    assert "_kvplan_completion kvplan" in registered
