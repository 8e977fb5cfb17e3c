"""The options and the help of ``kvplan explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.help import MODEL_FORMS, CommandHelp
from kvplan_cli.cli.options import OUTPUT, PLAN_OPTIONS, Option

# The first is the default.
FORMATS: Final = ("text", "json", "markdown")

EXPLAIN_OPTIONS: Final[Sequence[Option]] = (
    Option(
        name="format",
        spellings=("--format",),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; text by default.",
        panel=OUTPUT,
    ),
    *PLAN_OPTIONS,
)

EXPLAIN_HELP: Final = CommandHelp(
    usage="Usage: kvplan explain MODEL [OPTIONS]",
    about=(
        "Why a plan is as it is: every figure as formula, values and source; where memory goes, "
        "drawn; what is wasted, in bytes and percent; and the flags that would hold more, each "
        "planned, best first.",
        MODEL_FORMS,
    ),
    examples=(
        "kvplan explain gemma-3-27b --kv-mem 18GiB",
        "kvplan explain serve.yaml --gpu h100 -tp 2",
        "kvplan explain llama-3.1-8b --from-log serve.log --format markdown",
        "kvplan explain llama-3.1-8b --kv-mem 40GiB --get changes.0.typed",
    ),
    options=EXPLAIN_OPTIONS,
    endings="Exit codes: 0 it fits, 1 it does not fit (and what would make it fit), 2 the input is "
    "wrong, 3 it can't be planned, 70 a defect in kvplan.",
)
