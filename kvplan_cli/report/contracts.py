"""Every JSON document that kvplan prints, by name, with its schema."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from kvplan_cli.report.schema import json_schema

# Command to module and type. Imported one by one: a call makes one document.
CONTRACTS: Final[Mapping[str, tuple[str, str]]] = {
    "fit": ("document", "FitDocument"),
    "explain": ("explain_document", "ExplainDocument"),
    "solve": ("solve_document", "SolveDocument"),
    "sweep": ("sweep_document", "SweepDocument"),
    "gate": ("gate_document", "GateDocument"),
    "diff": ("diff_document", "DiffDocument"),
    "verify": ("verify_document", "VerifyDocument"),
    "models": ("lists", "ModelsDocument"),
    "gpus": ("lists", "GpusDocument"),
    "row": ("sweep_document", "RowDocument"),
    "error": ("failures", "ErrorDocument"),
}
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def contract(name: str) -> type:
    """The type of a document. name: a key of CONTRACTS."""
    module, type_name = CONTRACTS[name]
    found: type = getattr(import_module(f"kvplan_cli.report.{module}"), type_name)
    return found


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of a document. name: a key of CONTRACTS."""
    return json_schema(contract(name))


def schema_of_all() -> dict[str, Any]:
    """A JSON schema that accepts every document of kvplan; each is a resource of its own."""
    parts = {name: {"$id": f"urn:kvplan:{name}", **schema_of(name)} for name in CONTRACTS}
    return {
        "$schema": _DIALECT,
        "title": "kvplan",
        "anyOf": [{"$ref": part["$id"]} for part in parts.values()],
        "$defs": parts,
    }
