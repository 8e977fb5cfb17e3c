"""``kvplan schema``, and every command's JSON held against what it prints."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.report.contracts import CONTRACTS, contract, schema_of, schema_of_all
from tests.cli.process import kvplan

Validator = pytest.importorskip("jsonschema").Draft202012Validator

PLAN = "model: llama-3.1-8b\nkv-mem: 40GiB\nexpect: {min-concurrency: 2}\n"
RUNS = {
    "fit": ["fit", "gemma-3-27b", "--gpu", "h100", "--json"],
    "explain": ["explain", "gemma-3-27b", "--kv-mem", "18GiB", "--json"],
    "solve": ["solve", "llama-3.1-8b", "--for", "kv-mem", "--requests", "4096:100", "--json"],
    "sweep": ["sweep", "llama-3.1-8b", "--kv-mem", "9GiB", "--vary", "tp=1,2,3", "--json"],
    "gate": ["gate", "plan.yaml", "--json"],
    "diff": ["diff", "llama-3.1-8b", "qwen3-8b", "--kv-mem", "9GiB", "--json"],
    "verify": ["verify", "{examples}/serve.log", "llama-3.1-8b", "--json"],
    "models": ["models", "--json"],
    "gpus": ["gpus", "--json"],
}
REFUSED = {
    "wrong input": ["fit", "llama-3.1-8b", "--kv-mem", "1", "-tp", "x", "--json"],
    "refused by the engine": ["fit", "llama-3.1-8b", "--kv-mem", "9GiB", "-tp", "7", "--json"],
    "not planned": ["fit", "llama-3.1-8b", "--kv-mem", "9GiB", "--worker-cls", "x", "--json"],
    "another command": ["solve", "nobody", "--for", "x", "--json"],
}


def ran(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "plan.yaml").write_text(PLAN)
    examples = str(Path(__file__).parents[2] / "examples")
    words = [word.replace("{examples}", examples) for word in words]
    return kvplan(*(str(folder / word) if word == "plan.yaml" else word for word in words))


def test_every_document_is_run() -> None:
    assert {*RUNS, "row", "error"} == set(CONTRACTS)


@pytest.mark.parametrize("name", RUNS)
def test_what_a_command_prints_holds_its_schema(name: str, tmp_path: Path) -> None:
    document = json.loads(ran(RUNS[name], tmp_path).stdout)
    schema = json.loads(kvplan("schema", name).stdout)
    Validator.check_schema(schema)
    Validator(schema).validate(document)
    assert document["command"] == name


@pytest.mark.parametrize("case", REFUSED)
def test_errors_hold_their_schema(case: str, tmp_path: Path) -> None:
    done = ran(REFUSED[case], tmp_path)
    assert done.stdout == ""
    document = json.loads(done.stderr)
    Validator(json.loads(kvplan("schema", "error").stdout)).validate(document)
    assert document["exit_code"] == done.returncode


def test_lines_hold_their_schema() -> None:
    words = ["sweep", "llama-3.1-8b", "--kv-mem", "9GiB", "--vary", "tp=1,2,3"]
    lines = kvplan(*words, "--format", "jsonl").stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        Validator(schema_of("row")).validate(json.loads(line))


def test_one_schema_for_all(tmp_path: Path) -> None:
    schema = json.loads(kvplan("schema").stdout)
    assert schema == schema_of_all()
    Validator.check_schema(schema)
    for name in ("solve", "diff", "gpus"):
        document: dict[str, Any] = json.loads(ran(RUNS[name], tmp_path).stdout)
        Validator(schema).validate(document)
        assert not Validator(schema).is_valid({**document, "more": 1})


def test_contracts_are_found() -> None:
    assert all(contract(name).__name__ == CONTRACTS[name][1] for name in CONTRACTS)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["fitt"], "did you mean fit?"), (["fit", "x"], "one too many"), (["--zzz"], "--zzz")],
)
def test_usage(words: list[str], told: str) -> None:
    done = kvplan("schema", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
