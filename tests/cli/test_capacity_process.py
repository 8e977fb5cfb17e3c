"""solve and sweep as processes: what stands on which stream, and every ending."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.cli.process import command, environment, kvplan
from tests.cli.test_startup import HEAVY, imported

SOLVE = ("solve", "llama-3.1-8b", "--for", "max-model-len", "--kv-mem", "40GiB")
SWEEP = ("sweep", "llama-3.1-8b", "--kv-mem", "20GiB", "--vary", "tp=1,2,3")
# Long enough to be interrupted on any machine.
LONG = ("sweep", "gemma-3-27b", "--kv-mem", "20GiB", "--vary", "max-model-len=1001..100000")


def test_the_bare_value_is_all_of_stdout() -> None:
    done = kvplan(*SOLVE, "--concurrency", "8")
    assert (done.returncode, done.stdout) == (0, "40960\n")
    assert done.stderr.splitlines()[-1].startswith("max-model-len 40,960: 8.00 requests")


def test_quiet_leaves_the_value_only() -> None:
    done = kvplan(*SOLVE, "--concurrency", "8", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "40960\n", "")


def test_no_value_is_exit_1_and_an_empty_stdout() -> None:
    done = kvplan(*SOLVE, "--requests", "8192:1000")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the mix needs 512,000 blocks, 20,479 can be handed out" in done.stderr


def test_json_is_all_of_stdout() -> None:
    done = kvplan(*SOLVE, "--concurrency", "8", "--json")
    told = json.loads(done.stdout)
    assert (told["value"], told["text"], told["exit_code"], done.stderr) == (40960, "40960", 0, "")
    none = kvplan(*SOLVE, "--requests", "8192:1000", "--json")
    assert (json.loads(none.stdout)["value"], none.returncode) == (None, 1)


def test_utilization_in_a_shell() -> None:
    script = (
        "UTIL=$(kvplan solve llama-3.1-8b --for gpu-memory-utilization --gpu h100 "
        "--concurrency 2 --quiet)\n"
        "kvplan fit llama-3.1-8b --gpu h100 --gpu-memory-utilization $UTIL "
        "--get verdict.at_low.max_concurrency_requests"
    )
    program = " ".join(command((), None))
    done = subprocess.run(
        ["bash", "-ec", f'kvplan() {{ {program} "$@"; }}\n{script}'],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=True,
    )
    assert 2 <= float(done.stdout) < 2.1


def test_refused_flags_and_wrong_calls() -> None:
    assert kvplan(*SOLVE, "-tp", "3").returncode == 2
    wrong = kvplan(*SOLVE, "--concurrency", "x", "--json")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert json.loads(wrong.stderr)["problems"][0]["where"] == "--concurrency"


def test_a_table_with_refused_points() -> None:
    done = kvplan(*SWEEP)
    assert (done.returncode, done.stderr) == (0, "")
    assert "[1] Total number of attention heads (32)" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 of 3 rows fit, 1 are refused by vLLM; best:")


def test_no_row_that_fits_is_exit_1() -> None:
    assert kvplan(*SWEEP, "--where", "max_concurrency>=1000").returncode == 1


@pytest.mark.parametrize("form", ["csv", "jsonl", "markdown", "json"])
def test_documents_are_all_of_stdout(form: str) -> None:
    done = kvplan(*SWEEP, "--format", form)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == {"csv": 4, "jsonl": 3, "markdown": 5}.get(form) or (
        json.loads(done.stdout)["points_done"] == 3
    )


def test_a_plot_as_a_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG")):
        file = tmp_path / f"plot{suffix}"
        done = kvplan(*SWEEP, "--plot-file", str(file))
        assert done.returncode == 0
        assert file.read_bytes().startswith(start)
    lost = kvplan(*SWEEP, "--plot-file", str(tmp_path / "no" / "plot.svg"))
    assert lost.returncode == 2
    assert "can't be written" in lost.stderr
    odd = kvplan(*SWEEP, "--plot-file", "plot.txt")
    assert (odd.returncode, odd.stdout) == (2, "")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path) -> None:
    script = (
        "import sys\nsys.modules['matplotlib'] = None\nimport importlib.util\n"
        "importlib.util.find_spec = lambda name: None\n"
        "from kvplan_cli.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = [*command((), "x")[:2], script, *SWEEP, "--plot-file", str(tmp_path / "p.svg")]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment(), timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "kvplan-cli[plot]" in done.stderr


@contextmanager
def with_a_terminal(words: tuple[str, ...], out: Path) -> Iterator[tuple[Popen[bytes], int]]:
    """A process whose stderr is a terminal and whose stdout goes to a file."""
    ours, theirs = pty.openpty()
    with out.open("wb") as stdout:
        process = subprocess.Popen(
            command(words, None),
            stdout=stdout,
            stderr=theirs,
            env=environment({"TERM": "xterm", "COLUMNS": "80"}),
            preexec_fn=_hear_interrupts,
        )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        os.close(ours)
        process.kill()
        process.wait(timeout=300)


def _hear_interrupts() -> None:
    """A suite that runs in the background may have passed on that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_until(stream: int, pattern: bytes) -> bytes:
    """What a terminal shows up to ``pattern``, or all of it."""
    seen = b""
    while re.search(pattern, seen) is None:
        try:
            part = os.read(stream, 65536)
        except OSError:
            return seen
        seen += part
    return seen


def test_an_interrupt_keeps_what_was_done(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    with with_a_terminal((*LONG, "--format", "csv"), out) as (process, terminal):
        # The bar counts once points are being done.
        assert b"/99000" in read_until(terminal, rb"[1-9]\d*/99000")
        process.send_signal(signal.SIGINT)
        told = read_until(terminal, b"those are shown")
        assert process.wait(timeout=300) == 130
    assert re.search(rb"interrupted after [\d,]+ of 99,000 points; those are shown", told)
    assert out.read_text().startswith("max_model_len,state,")


def test_a_bar_on_a_terminal_only(tmp_path: Path) -> None:
    words = (*LONG[:-1], "max-model-len=1000..1400", "--format", "csv")
    assert kvplan(*words).stderr == ""
    with with_a_terminal(words, tmp_path / "rows.csv") as (process, terminal):
        assert b"/401" in read_until(terminal, b"no such text")
        assert process.wait(timeout=300) == 0


@pytest.mark.parametrize("name", ["solve", "sweep"])
def test_help_has_an_example(name: str) -> None:
    done = kvplan(name, "--help", env={"COLUMNS": "80"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: kvplan {name} MODEL")
    assert f"\n  kvplan {name} llama-3.1-" in done.stdout
    assert "…" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "--help"],
        ["sweep", "--help"],
        [*SOLVE, "--json"],
        [*SOLVE, "--quiet"],
        [*SWEEP, "--format", "csv"],
    ],
)
def test_nothing_heavy(words: list[str]) -> None:
    assert not imported(words) & set(HEAVY)
