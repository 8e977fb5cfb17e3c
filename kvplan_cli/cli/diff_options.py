"""The options and the help of ``kvplan diff``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.help import MODEL_FORMS, CommandHelp
from kvplan_cli.cli.options import (
    DEBUG_OPTION,
    HELP_OPTION,
    JSON_OPTION,
    MODEL_OPTIONS,
    OUTPUT,
    PANELS,
    Option,
)

# The first is the default.
FORMATS: Final = ("text", "json", "markdown")

DIFF_OPTIONS: Final[Sequence[Option]] = (
    *MODEL_OPTIONS,
    Option(
        name="format",
        spellings=("--format",),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; text by default.",
        panel=OUTPUT,
    ),
    Option(
        name="exit_code",
        spellings=("--exit-code",),
        help="End with 1 where anything differs, too.",
        panel=OUTPUT,
    ),
    JSON_OPTION,
    DEBUG_OPTION,
    HELP_OPTION,
)

DIFF_HELP: Final = CommandHelp(
    usage="Usage: kvplan diff A [B] [OPTIONS] [--a.OPTION VALUE] [--b.OPTION VALUE]",
    about=(
        "What changes from A to B, signed, most important first: the answer, longest context, "
        "requests, tokens, blocks, memory, groups, settings, notices.",
        "A and B are MODEL, or a file that kvplan fit --json printed. Options hold for both; "
        "--a.OPTION and --b.OPTION for one. Without B both are A, and differ by those. "
        "Behind -- may stand a serve command in place of B.",
        MODEL_FORMS,
    ),
    examples=(
        "kvplan diff plan.yaml --b.kv-cache-dtype fp8",
        "kvplan diff plan.yaml --a.engine-version 0.25.1",
        "kvplan diff before.json plan.yaml --format markdown",
        "kvplan diff qwen3-32b llama-3.1-70b --gpu h100 -tp 4",
        "kvplan diff deploy.yaml --a.environment staging --b.environment prod",
    ),
    options=DIFF_OPTIONS,
    panels=PANELS,
    endings="Exit codes: 0 B fits, 1 it does not (with --exit-code also where they differ), 2 an "
    "input is wrong, 3 one can't be planned, 70 a defect in kvplan.",
)
