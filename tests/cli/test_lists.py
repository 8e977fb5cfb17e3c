"""``kvplan models`` and ``kvplan gpus``, as processes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from kvplan_cli.loader.catalogue import gpus, model_names
from kvplan_cli.report.lists import GpusDocument, ModelsDocument
from kvplan_cli.report.schema import json_schema
from tests.docs.test_readme import kvplan


def document(command: str) -> dict[str, Any]:
    ended = kvplan([command, "--json"])
    assert (ended.returncode, ended.stderr) == (0, "")
    parsed: dict[str, Any] = json.loads(ended.stdout)
    return parsed


@pytest.mark.parametrize(
    ("command", "contract"), [("models", ModelsDocument), ("gpus", GpusDocument)]
)
def test_documents_follow_their_contract(command: str, contract: type) -> None:
    jsonschema.validate(document(command), json_schema(contract))


def test_all_that_is_bundled_is_listed() -> None:
    assert tuple(model["name"] for model in document("models")["models"]) == model_names()
    assert [card["name"] for card in document("gpus")["cards"]] == [card.name for card in gpus()]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["models", "gpus"])
def test_tables_hold_every_name_and_figure(command: str, columns: int) -> None:
    text = kvplan([command], columns=columns).stdout
    assert max(map(len, text.splitlines()[:-1])) <= columns
    listed = document(command)
    rows = listed["cards"] if command == "gpus" else listed["architectures"] + listed["models"]
    for row in rows:
        assert row["name"] in text
    if command == "gpus":
        for card in rows:
            assert f"{card['total_memory_bytes'] / 2**30:.2f}" in text


def test_refusals_have_a_reason_and_proofs_a_number() -> None:
    for entry in document("models")["architectures"]:
        assert (entry["support"] == "refused") == (entry["reason"] is not None)
        assert (entry["support"] == "exact") <= (entry["vectors"] > 0)


@pytest.mark.parametrize("command", ["models", "gpus"])
def test_help_has_an_example(command: str) -> None:
    text = kvplan([command, "--help"]).stdout
    assert f"Example: kvplan {command}" in text
