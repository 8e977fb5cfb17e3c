"""The command line's commands. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from kvplan_cli import __version__
from kvplan_cli.cli.streams import write

app: Final = typer.Typer(
    name="kvplan",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    # Typer's own help option costs an import of pydantic on every call; see ``start``.
    add_help_option=False,
    help="What vLLM will plan for a model's KV cache, before any GPU is rented.",
    epilog="Example: kvplan fit llama-3.1-8b --kv-mem 40GiB",
)


def _show_version(value: bool) -> None:
    if value:
        write(f"kvplan {__version__}\n")
        raise typer.Exit


def _show_help(context: typer.Context, value: bool) -> None:
    if value:
        write(f"{context.get_help()}\n")
        raise typer.Exit


def _eager(name: str, callback: Callable[..., None], help: str) -> Any:
    """A switch that answers by itself, before any command."""
    return typer.Option(name, is_eager=True, callback=callback, help=help)


# Only switches with a default of False: Typer reads those without a pydantic adapter.
@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, _eager("--version", _show_version, "Show the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    help: Annotated[bool, _eager("--help", _show_help, "Show this help and end.")] = False,
) -> None:
    """Without a command: the help."""
    if context.invoked_subcommand is None:
        write(f"{context.get_help()}\n")


# Commands that read their words themselves: see kvplan_cli.cli.parser.
_UNREAD: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
}


@app.command(
    "fit",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="Does it fit: budget, groups, blocks, tokens, requests, longest context.",
)
def fit(context: typer.Context) -> int:
    """Does the model fit."""
    if "--help" in context.args:
        from kvplan_cli.cli.help import show_fit_help

        show_fit_help()
        return 0
    from kvplan_cli.cli.fit import run

    return run(context.args, behind_dashes=context.obj or ())


@app.command(
    "explain",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="Why: every figure worked out, where memory goes, waste, flags that hold more.",
)
def explain(context: typer.Context) -> int:
    """Why the plan is as it is."""
    if "--help" in context.args:
        from kvplan_cli.cli.explain_options import EXPLAIN_HELP
        from kvplan_cli.cli.help import show_help

        show_help(EXPLAIN_HELP)
        return 0
    from kvplan_cli.cli.explain import run

    return run(context.args, behind_dashes=context.obj or ())


@app.command(
    "verify",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="A start-up log against the plan: printed beside predicted, figure by figure.",
)
def verify(context: typer.Context) -> int:
    """A start-up log against the plan."""
    from kvplan_cli.cli.verify import run, show_help

    if "--help" in context.args:
        show_help()
        return 0
    return run(context.args)


@app.command(
    "solve",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="The least or most of one quantity under needs, bare for scripts.",
)
def solve(context: typer.Context) -> int:
    """One quantity under needs."""
    if "--help" in context.args:
        from kvplan_cli.cli.help import show_help
        from kvplan_cli.cli.solve_options import SOLVE_HELP

        show_help(SOLVE_HELP)
        return 0
    from kvplan_cli.cli.solve import run

    return run(context.args, behind_dashes=context.obj or ())


@app.command(
    "sweep",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="A table of what-ifs: flags varied, filtered, sorted, drawn.",
)
def sweep(context: typer.Context) -> int:
    """A table of what-ifs."""
    if "--help" in context.args:
        from kvplan_cli.cli.help import show_help
        from kvplan_cli.cli.sweep_options import SWEEP_HELP

        show_help(SWEEP_HELP)
        return 0
    from kvplan_cli.cli.sweep import run

    return run(context.args, behind_dashes=context.obj or ())


@app.command(
    "gate",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="CI: plan files held against what they expect, all of them.",
)
def gate(context: typer.Context) -> int:
    """Plan files held against what they expect."""
    if "--help" in context.args:
        from kvplan_cli.cli.gate_options import GATE_HELP
        from kvplan_cli.cli.help import show_help

        show_help(GATE_HELP)
        return 0
    from kvplan_cli.cli.gate import run

    return run(context.args, behind_dashes=context.obj or ())


@app.command(
    "diff",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="Two plans or saved answers: what changes, signed, most important first.",
)
def diff(context: typer.Context) -> int:
    """What changes from one answer to another."""
    if "--help" in context.args:
        from kvplan_cli.cli.diff_options import DIFF_HELP
        from kvplan_cli.cli.help import show_help

        show_help(DIFF_HELP)
        return 0
    from kvplan_cli.cli.diff import run

    return run(context.args, behind_dashes=context.obj or ())


JsonSwitch = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HelpSwitch = Annotated[bool, _eager("--help", _show_help, "Show this help and end.")]


@app.command("models", add_help_option=False, short_help="What is planned: models, architectures.")
def models(json: JsonSwitch = False, help: HelpSwitch = False) -> int:
    """What is planned: the bundled models, and every architecture of the engine's registry.

    exact: answers of the engine prove it. unproved: planned by its kin's rules, without a
    proof of its own. refused: not planned.

    Example: kvplan models
    """
    from kvplan_cli.cli.lists import show_models

    return show_models(as_json=json)


@app.command("gpus", add_help_option=False, short_help="The cards that --gpu knows.")
def gpus(json: JsonSwitch = False, help: HelpSwitch = False) -> int:
    """The cards that --gpu knows, with the memory that CUDA reports.

    Example: kvplan gpus
    """
    from kvplan_cli.cli.lists import show_gpus

    return show_gpus(as_json=json)


@app.command(
    "schema",
    context_settings=_UNREAD,
    add_help_option=False,
    short_help="The JSON schema of what the commands print.",
)
def schema(context: typer.Context) -> int:
    """The JSON schema of what the commands print."""
    from kvplan_cli.cli.schema import run, show_schema_help

    if "--help" in context.args:
        show_schema_help()
        return 0
    return run(context.args)
