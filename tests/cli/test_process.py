"""Every ending, as a process: exit code, stdout, stderr."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess

import pytest

from kvplan_cli import __version__
from tests.cli.process import command, environment, kvplan
from tests.report.golden import FOLDER


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("dense", 0),
        ("refused", 1),
        ("estimate", 0),
        ("refuse", 2),
        ("unknown", 3),
        ("crash", 70),
        ("interrupt", 130),
    ],
)
def test_exit_codes(case: str, code: int) -> None:
    assert kvplan("fit", "model", case=case).returncode == code


def test_tables_off_a_terminal() -> None:
    done = kvplan("fit", "model", case="hybrid")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "Fits: 1.11 requests of 131,072 tokens at a time (145,829 tokens, 16,384 blocks)."
    )


def test_columns_are_respected() -> None:
    wide = kvplan("fit", "model", case="hybrid", env={"COLUMNS": "120"}).stdout
    golden = (FOLDER / "hybrid" / "120.txt").read_text(encoding="utf-8")
    assert golden.splitlines()[4] in wide.splitlines()


def test_the_first_line_says_how_experts_are_shared() -> None:
    words = ("fit", "qwen3-30b-a3b", "--kv-mem", "40GiB", "-tp", "2")
    first = kvplan(*words, "-dp", "2", "-ep").stdout.splitlines()[0]
    assert ", TP 2, DP 2, EP, max_model_len" in first
    assert ", TP 2, max_model_len" in kvplan(*words).stdout.splitlines()[0]


def test_json_is_the_golden_document() -> None:
    done = kvplan("fit", "model", "--json", case="refused")
    golden = json.loads((FOLDER / "refused" / "fit.json").read_text(encoding="utf-8"))
    assert json.loads(done.stdout) == {**golden, "kvplan_version": __version__}
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("plan.num_blocks", "20480\n"),
        ("verdict.answer", "fits\n"),
        ("refusal", "null\n"),
        ("plan.workers.0.blocks_per_request_by_group", "[8192]\n"),
    ],
)
def test_get(path: str, shown: str) -> None:
    done = kvplan("fit", "model", "--get", path, case="dense")
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


def test_a_value_that_a_refusal_has_not_is_null() -> None:
    done = kvplan("fit", "model", "--get", "plan.num_blocks", case="refused")
    assert (done.returncode, done.stdout) == (1, "null\n")


def test_unknown_path_is_wrong_input() -> None:
    done = kvplan("fit", "model", "--get", "plan.num_block", case="dense")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean plan.num_blocks" in done.stderr


@pytest.mark.parametrize("case", ["refuse", "unknown", "crash"])
def test_with_json_an_error_is_one_object_on_stderr(case: str) -> None:
    done = kvplan("fit", "model", "--json", case=case)
    told = json.loads(done.stderr)
    assert done.stdout == ""
    assert told["exit_code"] == done.returncode
    assert (told["engine_error"] is None) == (case != "refuse")


def test_usage_errors_are_json_too() -> None:
    done = kvplan("fit", "--json", "--bogus")
    assert json.loads(done.stderr)["error"] == "wrong_input"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_crash_is_one_line_and_says_how_to_get_the_traceback() -> None:
    done = kvplan("fit", "model", case="crash")
    assert done.stderr.count("\n") == 1
    assert "RuntimeError: two lines" in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("--debug", "fit", "model"), ("fit", "model", "--debug")])
def test_debug_shows_the_traceback(words: tuple[str, ...]) -> None:
    done = kvplan(*words, case="crash")
    assert "Traceback (most recent call last)" in done.stderr
    assert done.returncode == 70


def test_debug_with_json_is_still_one_object() -> None:
    done = kvplan("fit", "model", "--debug", "--json", case="crash")
    assert "Traceback" in json.loads(done.stderr)["traceback"]


def test_ctrl_c_is_quiet() -> None:
    done = kvplan("fit", "model", case="interrupt")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("words", [(), ("--help",), ("fit", "--help")])
def test_help(words: tuple[str, ...]) -> None:
    done = kvplan(*words)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: kvplan")
    assert "kvplan fit llama-3.1-8b --kv-mem 40GiB" in done.stdout
    assert done.stderr == ""


def test_version() -> None:
    done = kvplan("--version")
    assert (done.returncode, done.stdout) == (0, f"kvplan {__version__}\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fitt",), "fit"),
        (("--bogus",), "--bogus"),
        (("fit",), "MODEL: is missing"),
        (("fit", "model", "--", "vllm", "serve"), "behind --"),
        (("fit", "--", "vllm", "serve"), "serve command: names no model"),
    ],
)
def test_usage_errors(words: tuple[str, ...], told: str) -> None:
    done = kvplan(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("fit", "model"), ("fit", "model", "--json"), ("fit", "--help")])
def test_a_reader_that_has_gone_is_no_error(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command(words, "hybrid"),
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=300,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("fit", "model"), ("--version",), ("--help",)])
def test_a_full_disk_is_told(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(words, "dense"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=300,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"kvplan: the input is wrong: stdout: can't be written")
    assert done.stderr.count(b"\n") == 1


def test_ascii_where_the_encoding_needs_it() -> None:
    done = kvplan("fit", "model", case="hybrid", env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.isascii()
    assert done.returncode == 0


def on_a_terminal(env: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(("fit", "model"), "refused"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment({"TERM": "xterm", "COLUMNS": "80", **env}),
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait(timeout=300) == 1
    return seen.decode()


def test_a_terminal_gets_colors_and_wrapped_sentences() -> None:
    seen = on_a_terminal({})
    assert "\x1b[" in seen
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", seen).splitlines()]
    golden = (FOLDER / "refused" / "80.txt").read_text(encoding="utf-8")
    assert lines == golden.splitlines()


def test_no_color() -> None:
    seen = on_a_terminal({"NO_COLOR": "1"})
    assert "\x1b" not in seen
    golden = (FOLDER / "refused" / "80.txt").read_text(encoding="utf-8")
    assert seen.replace("\r\n", "\n") == golden
