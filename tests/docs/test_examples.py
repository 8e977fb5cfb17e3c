"""Every example runs, and prints what is kept beside it."""

from __future__ import annotations

import pytest

from tests.docs.test_readme import ROOT, kvplan, shell

EXAMPLES = ROOT / "examples"
RUNS = {
    "plan": ["fit", "examples/plan.yaml"],
    "serve": ["fit", "examples/serve.yaml", "--gpu", "h100"],
    "deployment": ["fit", "examples/deployment.yaml", "--service", "chat"],
    "compose": ["fit", "examples/compose.yaml", "--kv-mem", "45GiB"],
    "new-architecture": ["fit", "examples/new-architecture.yaml"],
    "why-from-log": ["explain", "llama-3.1-8b", "--from-log", "examples/serve.log"],
    "no-longer-fits": ["gate", "examples/no-longer-fits.yaml"],
    "expected-of-deployment": ["gate", "examples/expected-of-deployment.yaml"],
    "deploy": ["gate", "examples/deploy/*.yaml"],
    "staging-to-prod": [
        "diff",
        "examples/deploy/chat.yaml",
        "--a.environment",
        "staging",
        "--b.environment",
        "prod",
    ],
}


SCRIPT = "one-number.sh"


def script_output() -> str:
    return shell(f". examples/{SCRIPT}", columns=80)


def output(name: str) -> str:
    ended = kvplan(RUNS[name], columns=80)
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("name", RUNS)
def test_example(name: str) -> None:
    assert output(name) == (EXAMPLES / "outputs" / f"{name}.txt").read_text(encoding="utf-8")


def test_the_script() -> None:
    assert script_output() == (EXAMPLES / "outputs/one-number.txt").read_text(encoding="utf-8")


def test_every_example_is_run() -> None:
    given = {path for words in RUNS.values() for word in words for path in ROOT.glob(word)}
    # library.py is run by the README's own test.
    given |= {EXAMPLES / "library.py", EXAMPLES / SCRIPT}
    files = {path for path in EXAMPLES.iterdir() if path.is_file()}
    assert files | set(EXAMPLES.rglob("*.yaml")) <= given


if __name__ == "__main__":
    for example in RUNS:
        (EXAMPLES / "outputs" / f"{example}.txt").write_text(output(example), encoding="utf-8")
    (EXAMPLES / "outputs" / "one-number.txt").write_text(script_output(), encoding="utf-8")
