"""What the words of a command may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.options import FIT_OPTIONS, JSON_OPTION, Option
from kvplan_cli.engine_rules import KEPT
from kvplan_cli.loader.catalogue import gpus, model_names
from kvplan_cli.loader.flags import FLAGS_BY_NAME
from kvplan_cli.report.contracts import CONTRACTS
from kvplan_cli.report.emit import FORMS
from kvplan_cli.results_solve import End, Quantity

_MODEL_COMMANDS: Final = ("fit", "explain", "solve", "sweep", "diff", "verify")
COMMANDS: Final = (*_MODEL_COMMANDS, "gate", "models", "gpus", "schema")


def options_of(command: str) -> Sequence[Option]:
    """The options of a command."""
    from kvplan_cli.cli import diff_options, explain_options, gate_options, solve_options
    from kvplan_cli.cli.schema import SCHEMA_OPTIONS
    from kvplan_cli.cli.sweep_options import SWEEP_OPTIONS
    from kvplan_cli.cli.verify import VERIFY_OPTIONS

    options: dict[str, Sequence[Option]] = {
        "fit": FIT_OPTIONS,
        "explain": explain_options.EXPLAIN_OPTIONS,
        "solve": solve_options.SOLVE_OPTIONS,
        "sweep": SWEEP_OPTIONS,
        "diff": diff_options.DIFF_OPTIONS,
        "verify": VERIFY_OPTIONS,
        "gate": gate_options.GATE_OPTIONS,
        "schema": SCHEMA_OPTIONS,
    }
    return options.get(command, (JSON_OPTION,))


def values_of(option: str, command: str) -> Sequence[str]:
    """The legal values of an option where they can be listed."""
    if option == "gpu":
        return [card.name for card in gpus()]
    if option == "format":
        return _formats(command)
    flag = FLAGS_BY_NAME.get(option)
    if flag is not None:
        return flag.choices
    listed = {
        "for": [quantity.value for quantity in Quantity],
        "on": [end.value for end in End],
        "emit": FORMS,
        "engine_version": KEPT,
    }
    return listed.get(option, ())


def _formats(command: str) -> Sequence[str]:
    from kvplan_cli.cli import diff_options, explain_options, gate_options, sweep_options

    modules = {
        "sweep": sweep_options,
        "diff": diff_options,
        "explain": explain_options,
        "gate": gate_options,
    }
    formats: Sequence[str] = modules[command].FORMATS
    return formats


def words_of(command: str) -> Sequence[str]:
    """The words of a command that are no options, where they can be listed."""
    if command == "schema":
        return tuple(CONTRACTS)
    return model_names() if command in _MODEL_COMMANDS else ()
