"""Every example runs, and prints what is kept beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, kvplan

EXAMPLES = ROOT / "examples"
RUNS = {
    "plan": ["examples/plan.yaml"],
    "serve": ["examples/serve.yaml", "--gpu", "h100"],
    "deployment": ["examples/deployment.yaml", "--service", "chat"],
    "compose": ["examples/compose.yaml", "--kv-mem", "45GiB"],
    "new-architecture": ["examples/new-architecture.yaml"],
}


def output(name: str) -> str:
    ended = kvplan(["fit", *RUNS[name]], columns=80)
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("name", RUNS)
def test_example(name: str) -> None:
    assert output(name) == (EXAMPLES / "outputs" / f"{name}.txt").read_text(encoding="utf-8")


def test_every_example_is_run() -> None:
    files = {Path(words[0]).name for words in RUNS.values()}
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == files


if __name__ == "__main__":
    for example in RUNS:
        (EXAMPLES / "outputs" / f"{example}.txt").write_text(output(example), encoding="utf-8")
