"""The README's tables of JSON keys, made from the contracts' own texts.

``python -m tests.docs.json_table`` writes them anew, between their marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kvplan_cli.report.diff_document import DiffDocument
from kvplan_cli.report.document import FitDocument
from kvplan_cli.report.explain_document import ExplainDocument
from kvplan_cli.report.gate_document import GateDocument
from kvplan_cli.report.schema import json_schema
from kvplan_cli.report.solve_document import SolveDocument
from kvplan_cli.report.sweep_document import SweepDocument
from kvplan_cli.report.verify_document import VerifyDocument

# The word of a table's marks to its contract.
TABLES: Final[Mapping[str, type]] = {
    "json": FitDocument,
    "explain": ExplainDocument,
    "gate": GateDocument,
    "diff": DiffDocument,
    "solve": SolveDocument,
    "sweep": SweepDocument,
    "verify": VerifyDocument,
}
# Parts of one contract that are another's: told there.
_OTHERS = {FitDocument.__name__}


def json_table(document_type: type = FitDocument) -> str:
    """Every key of a document with its type and meaning, as a Markdown table."""
    schema = json_schema(document_type)
    rows = ["| key | type | meaning |", "|---|---|---|"]
    rows += _rows(schema, schema["$defs"], "")
    return "\n".join(rows)


def _rows(part: dict[str, Any], definitions: dict[str, Any], prefix: str) -> list[str]:
    rows = []
    for name, value in part["properties"].items():
        kind, inner, suffix = _kind(value)
        rows.append(f"| `{prefix}{name}{suffix}` | {kind} | {value['description']} |")
        if inner and inner not in _OTHERS:
            rows += _rows(definitions[inner], definitions, f"{prefix}{name}{suffix}.")
    return rows


def _kind(value: dict[str, Any]) -> tuple[str, str | None, str]:
    """The type in words, the definition behind it, and ``[]`` for a list."""
    if "$ref" in value:
        return "object", value["$ref"].rsplit("/", 1)[1], ""
    if "enum" in value:
        return " or ".join(f"`{item}`" for item in value["enum"]), None, ""
    if "anyOf" in value:
        parts = [_kind(part) for part in value["anyOf"]]
        inner = next((part[1] for part in parts if part[1]), None)
        return " or ".join(part[0] for part in parts), inner, ""
    kind = value["type"]
    if kind == "array":
        words, inner, _ = _kind(value["items"])
        return f"list of {words}s", inner, "[]"
    return " or ".join(kind) if isinstance(kind, list) else kind, None, ""


def marks(word: str) -> tuple[str, str]:
    """The lines around a table in the README."""
    return f"<!-- {word} keys: python -m tests.docs.json_table -->", f"<!-- end of {word} keys -->"


def with_tables(readme: str) -> str:
    """The README with the tables as they should be."""
    for word, document_type in TABLES.items():
        start, end = marks(word)
        before, _, rest = readme.partition(f"{start}\n")
        _, _, after = rest.partition(end)
        readme = f"{before}{start}\n{json_table(document_type)}\n{end}{after}"
    return readme


if __name__ == "__main__":
    path = Path(__file__).resolve().parents[2] / "README.md"
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
