"""The help of a command: options grouped under headings, no name ever cut.

Typer's own help cuts long option names at 80 columns and costs an import of Rich.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

from kvplan_cli.cli.options import FIT_OPTIONS, PANELS, Option
from kvplan_cli.cli.streams import write
from kvplan_cli.values import dataclass

_INDENT: Final = "  "
_HELP_COLUMN: Final = 34
_WIDEST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHelp:
    """What the help of a command is made of. panels: headings of the options, in order."""

    usage: str
    about: Sequence[str]
    options: Sequence[Option]
    examples: Sequence[str]
    endings: str
    panels: Sequence[str] = PANELS


MODEL_FORMS: Final = (
    "MODEL is a config.json, a folder that holds one, a hub id, a name of the bundled "
    "catalogue, the engine's serve YAML, a plan file, or a manifest, compose file or Helm values "
    "that hold a serve command; or a serve command behind -- in its place. Flags have the "
    "engine's names and mean what they mean there; its other flags are accepted where they touch "
    "no plan."
)
FIT: Final = CommandHelp(
    usage="Usage: kvplan fit MODEL [OPTIONS]",
    about=(
        "Does the model fit: memory budget, cache groups, blocks, tokens, requests at a time, "
        "longest context.",
        MODEL_FORMS,
    ),
    options=FIT_OPTIONS,
    examples=(
        "kvplan fit llama-3.1-8b --kv-mem 40GiB",
        "kvplan fit ./config.json --gpu h100 -tp 2 --max-model-len auto",
        "kvplan fit serve.yaml --gpu-mem 80GiB --get plan.num_blocks",
        "kvplan fit --gpu h100 -- vllm serve Qwen/Qwen3-32B -tp 2 --max-model-len 32k",
    ),
    endings="Exit codes: 0 it fits, 1 it does not fit, 2 the input is wrong, 3 it can't be "
    "planned, 70 a defect in kvplan.",
)


def show_fit_help() -> None:
    """Put the help of ``kvplan fit`` on stdout."""
    show_help(FIT)


def show_help(command: CommandHelp) -> None:
    """Put a command's help on stdout."""
    write(help_text(command, min(_WIDEST, get_terminal_size((80, 24)).columns)))


def fit_help(width: int) -> str:
    """The help of ``kvplan fit`` at ``width`` columns."""
    return help_text(FIT, width)


def help_text(command: CommandHelp, width: int) -> str:
    """A command's help at ``width`` columns."""
    lines = [command.usage, ""]
    for paragraph in command.about:
        lines += [*wrap(paragraph, width, break_long_words=False), ""]
    for panel in command.panels:
        lines += [f"{panel}:", *_panel(command.options, panel, width), ""]
    lines += ["Examples:", *(f"{_INDENT}{example}" for example in command.examples), ""]
    lines += wrap(command.endings, width, break_long_words=False)
    return "".join(f"{line}\n" for line in lines)


def _panel(options: Sequence[Option], panel: str, width: int) -> Iterator[str]:
    for option in options:
        if option.panel == panel:
            yield from _option_lines(option, width)


def _option_lines(option: Option, width: int) -> Iterator[str]:
    """The spellings, then the help beside them, or beneath where they are too long."""
    names = _INDENT + ", ".join([*reversed(option.spellings[1:]), option.spellings[0]])
    if option.metavar is not None:
        names += f" {option.metavar}"
    if option.negation is not None:
        names += f" / {option.negation}"
    texts = wrap(option.help, max(20, width - _HELP_COLUMN), break_long_words=False)
    if len(names) + 2 > _HELP_COLUMN:
        yield names
    else:
        yield f"{names:<{_HELP_COLUMN}}{texts.pop(0)}"
    yield from (f"{'':<{_HELP_COLUMN}}{text}" for text in texts)
