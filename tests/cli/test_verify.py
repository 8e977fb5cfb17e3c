"""``kvplan verify`` as a process: endings, streams, and the words of the call."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kvplan_cli.cli.verify import VERIFY_OPTIONS, read_call
from kvplan_cli.errors import InputError
from tests.cli.process import command, environment, kvplan

LOG = "tests/data/logs/serve-0.31.log"
ROOT = Path(__file__).parents[2]


def test_a_log_that_agrees_ends_with_zero() -> None:
    ended = kvplan("verify", str(ROOT / LOG), "llama-3.1-8b")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith(
        "All 6 figures agree: 2 as printed, 4 inside the range of an estimate.\n"
    )


def test_stdin_is_a_log_and_json_is_one_document() -> None:
    text = (ROOT / LOG).read_text().replace("460,496", "999,999")
    ended = subprocess.run(
        command(("verify", "-", "llama-3.1-8b", "--json"), None),
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(),
        timeout=300,
        check=False,
    )
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    assert (document["log"]["name"], document["all_agree"]) == ("stdin", False)


def test_one_value_for_scripts() -> None:
    ended = kvplan("verify", str(ROOT / LOG), "llama-3.1-8b", "--get", "all_agree")
    assert ended.stdout == "true\n"


def test_the_help_names_every_option() -> None:
    ended = kvplan("verify", "--help")
    for option in VERIFY_OPTIONS:
        assert option.spellings[0] in ended.stdout
    assert "--kv-mem" not in ended.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "LOG: is missing"),
        (("a.log", "model", "more"), "one word too many"),
        (("a.log", "--kv-mem", "3GiB"), "no such option"),
        (("a.log", "--json", "--get", "log"), "contradict"),
        (("a.log", "--get", "log.nmae"), "did you mean"),
        (("a.log", "--tensor-parallel-size", "x"), "whole number"),
    ],
)
def test_wrong_words_are_told(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_call(words)


def test_a_missing_log_is_wrong_input() -> None:
    ended = kvplan("verify", "no-such.log", "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert json.loads(ended.stderr)["exit_code"] == 2
