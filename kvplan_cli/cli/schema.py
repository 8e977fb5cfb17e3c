"""``kvplan schema``: the JSON schema of what the commands print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.help import CommandHelp, show_help
from kvplan_cli.cli.options import DEBUG_OPTION, HELP_OPTION, OUTPUT
from kvplan_cli.cli.parser import parse
from kvplan_cli.cli.streams import write
from kvplan_cli.loader.problems import Problems, nearest, shown
from kvplan_cli.report.contracts import CONTRACTS, schema_of, schema_of_all
from kvplan_cli.report.json_form import dumps

SCHEMA_OPTIONS: Final = (DEBUG_OPTION, HELP_OPTION)


def run(words: Sequence[str]) -> int:
    """Put the schema on stdout. Raises: InputError for a name that no document has."""
    problems = Problems()
    call = parse(words, SCHEMA_OPTIONS, problems, "schema")
    known = ", ".join(CONTRACTS)
    name = call.models[0] if call.models else None
    if name is not None and name not in CONTRACTS:
        near = nearest(name, CONTRACTS)
        hint = f"did you mean {near}? " if near else ""
        problems.add("NAME", f"no document is called {shown(name)}", f"{hint}one of {known}")
    for word in call.models[1:]:
        problems.add("NAME", f"{shown(word)} is one too many", "one document a call")
    problems.finish()
    write(f"{dumps(schema_of_all() if name is None else schema_of(name))}\n")
    return 0


def show_schema_help() -> None:
    """Put the help of ``kvplan schema`` on stdout."""
    show_help(
        CommandHelp(
            usage="Usage: kvplan schema [NAME]",
            about=(
                "The JSON schema (2020-12) of what a command prints with --json; without NAME, "
                "one that accepts every document.",
                f"NAME is one of {', '.join(CONTRACTS)}: row is a line of sweep's jsonl, error "
                "what stands on stderr with --json where there is no answer.",
            ),
            options=SCHEMA_OPTIONS,
            panels=(OUTPUT,),
            examples=("kvplan schema fit", "kvplan schema > kvplan.schema.json"),
            endings="Exit codes: 0 printed, 2 the input is wrong, 70 a defect in kvplan.",
        )
    )
