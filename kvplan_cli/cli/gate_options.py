"""The options and the help of ``kvplan gate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.help import CommandHelp
from kvplan_cli.cli.options import (
    DEBUG_OPTION,
    HELP_OPTION,
    JSON_OPTION,
    MODEL_OPTIONS,
    OUTPUT,
    Option,
)
from kvplan_cli.cli.solve_options import ON_OPTION, QUESTION
from kvplan_cli.loader.expectations import EXPECTATIONS

# The first is the default.
FORMATS: Final = ("text", "json", "junit", "github", "gitlab", "markdown")

GATE_OPTIONS: Final[Sequence[Option]] = (
    Option(
        name="environments",
        spellings=("--environment",),
        metavar="NAMES",
        help="Check these environments only, of the files that have some. Joined with commas, "
        "or given again.",
        panel=QUESTION,
        repeats=True,
    ),
    Option(
        name="deployments",
        spellings=("--deployment",),
        metavar="NAMES",
        help="Check these deployments only, of the files that have several. Likewise.",
        panel=QUESTION,
        repeats=True,
    ),
    ON_OPTION,
    Option(
        name="format",
        spellings=("--format",),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}: what stdout holds; text by default.",
        panel=OUTPUT,
    ),
    Option(
        name="output",
        spellings=("--output",),
        metavar="FORMAT=FILE",
        help="Write a format to a file beside what stdout holds, as in junit=gate.xml; - is "
        "stdout. May be given again.",
        panel=OUTPUT,
        repeats=True,
    ),
    JSON_OPTION,
    DEBUG_OPTION,
    HELP_OPTION,
)

FIRST_FILE: Final = "A first file"
_INIT_ONLY: Final[Sequence[Option]] = (
    Option(
        name="init",
        spellings=("--init",),
        metavar="FILE",
        help="Write a first plan file for MODEL and the options of kvplan fit, or for a serve "
        "command behind --: today's figures as expectations. - is stdout.",
        panel=FIRST_FILE,
    ),
    Option(
        name="margin",
        spellings=("--margin",),
        metavar="PART",
        help="What the expectations leave of today's figures, as in 10%; 5% by default.",
        panel=FIRST_FILE,
    ),
    Option(
        name="force",
        spellings=("--force",),
        help="Write over a file that is there.",
        panel=FIRST_FILE,
    ),
)
INIT_OPTIONS: Final[Sequence[Option]] = (
    *_INIT_ONLY,
    ON_OPTION,
    *MODEL_OPTIONS,
    DEBUG_OPTION,
    HELP_OPTION,
)

GATE_HELP: Final = CommandHelp(
    usage="Usage: kvplan gate FILE... [OPTIONS], or kvplan gate --init FILE MODEL [OPTIONS]",
    about=(
        "Deployments held against what their plan files expect: all are planned, whatever "
        "becomes of some, then shown as required, actual, margin.",
        "FILE is a plan file with expect:, or a pattern ('deploy/**/*.yaml', in quotes or not). "
        "A file may extend another (extends: base.yaml) and hold several environments and "
        "deployments, each laid over the rest; all of them are checked.",
        f"expect: takes {', '.join(EXPECTATIONS)}.",
    ),
    examples=(
        "kvplan gate deploy/*.yaml --output junit=gate.xml",
        "kvplan gate 'deploy/**/*.yaml' --environment prod --on likely",
        "kvplan gate chat.yaml --format github",
        "kvplan gate --init chat.yaml --gpu h100 -- vllm serve Qwen/Qwen3-32B -tp 2",
    ),
    options=(*GATE_OPTIONS, *_INIT_ONLY),
    panels=(QUESTION, FIRST_FILE, OUTPUT),
    endings="Exit codes: 0 every expectation holds, 1 one fails or a deployment does not fit, "
    "2 an input is wrong, 3 one can't be planned, 70 a defect in kvplan. Of several the gravest: "
    "70, then 2, 3, 1.",
)
