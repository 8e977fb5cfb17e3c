"""What a call imports: nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.process import FAKE, environment

HEAVY = ("rich", "pydantic", "transformers", "huggingface_hub", "torch", "numpy", "jsonschema")


def imported(words: list[str], case: str = "dense") -> set[str]:
    """The modules that a call leaves imported."""
    script = FAKE.replace("sys.exit(main())", "main()") + (
        "\nprint(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, case, *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["fit", "--help"],
        ["fit", "model", "--json"],
        ["fit", "model", "--get", "plan.num_blocks"],
    ],
)
def test_nothing_heavy(words: list[str]) -> None:
    assert not imported(words) & set(HEAVY)


def test_tables_import_rich_and_no_more() -> None:
    assert imported(["fit", "model"]) & set(HEAVY) == {"rich"}
