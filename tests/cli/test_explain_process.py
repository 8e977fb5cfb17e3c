"""``kvplan explain`` as a process: documents, streams, exit codes."""

from __future__ import annotations

import json

import pytest

from tests.cli.process import kvplan

WINDOWS = ("explain", "gemma-3-27b", "--kv-mem", "18GiB")


def test_text_goes_to_stdout_and_nothing_to_stderr() -> None:
    ended = kvplan(*WINDOWS)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "--max-num-batched-tokens 1024" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("Fits: 1.00 request of 131,072 tokens")
    assert "\x1b" not in ended.stdout


def test_what_does_not_fit_ends_with_one() -> None:
    ended = kvplan("explain", "llama-3.1-8b", "--kv-mem", "12GiB", "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    document = json.loads(ended.stdout)
    assert document["command"] == "explain"
    assert document["fit"]["verdict"]["answer"] == "does_not_fit"
    assert "missing" in {figure["name"] for figure in document["figures"]}


def test_one_value_is_bare() -> None:
    ended = kvplan(*WINDOWS, "--get", "changes.0.typed")
    assert (ended.returncode, ended.stdout) == (0, "--kv-cache-dtype fp8\n")
    wrong = kvplan(*WINDOWS, "--get", "figures.0.reslt")
    assert wrong.returncode == 2
    assert "did you mean figures.0.result" in wrong.stderr


def test_markdown_and_json_are_formats() -> None:
    ended = kvplan(*WINDOWS, "--format", "markdown")
    assert ended.stdout.startswith("### kvplan explain: gemma-3-27b\n")
    assert kvplan(*WINDOWS, "--format", "json").stdout == kvplan(*WINDOWS, "--json").stdout
    for words, said in (
        (("--format", "markdwn"), "did you mean markdown?"),
        (("--format", "text", "--json"), "contradict each other"),
        (("--format", "text", "--get", "now.fits"), "--get prints one value"),
    ):
        wrong = kvplan(*WINDOWS, *words)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert said in wrong.stderr


def test_a_card_is_drawn() -> None:
    ended = kvplan("explain", "llama-3.1-8b", "--gpu", "h100", env={"COLUMNS": "100"})
    assert ended.returncode == 0
    assert "Memory of a card: 79.19 GiB" in ended.stdout
    assert "█" in ended.stdout
    plain = kvplan("explain", "llama-3.1-8b", "--gpu", "h100", env={"PYTHONIOENCODING": "ascii"})
    assert plain.stdout.isascii()
    assert "#" in plain.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("explain",), 2, "MODEL: is missing"),
        (("explain", "llama-3.1-8b"), 2, "nothing says how much there is"),
        (("explain", "llama-3.1-8b", "--kv-mem", "8GiB", "-tp", "3"), 2, "divisible"),
        (("explain", "x", "--kvmem", "8GiB"), 2, "did you mean --kv-mem?"),
        (("explain", "x", "--", "y"), 2, "a serve command behind --"),
    ],
)
def test_faults_end_as_in_fit(words: tuple[str, ...], code: int, said: str) -> None:
    ended = kvplan(*words)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert said in ended.stderr


def test_a_serve_command_is_explained() -> None:
    words = ("vllm", "serve", "gemma-3-27b", "--max-num-batched-tokens", "1024")
    ended = kvplan(
        "explain", "--kv-mem", "18GiB", "--get", "now.max_concurrency_requests", "--", *words
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert float(ended.stdout) > 1.5


def test_help_names_it_and_shows_examples() -> None:
    ended = kvplan("explain", "--help")
    assert ended.returncode == 0
    assert "kvplan explain gemma-3-27b --kv-mem 18GiB" in ended.stdout
    assert "--max-num-batched-tokens" in ended.stdout
    assert "explain" in kvplan("--help").stdout
