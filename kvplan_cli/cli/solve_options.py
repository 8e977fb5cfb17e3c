"""The options and the help of ``kvplan solve``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.help import MODEL_FORMS, CommandHelp
from kvplan_cli.cli.options import (
    DEBUG_OPTION,
    EMIT_OPTION,
    HELP_OPTION,
    JSON_OPTION,
    MODEL_OPTIONS,
    PANELS,
    QUIET_OPTION,
    Option,
)
from kvplan_cli.results_solve import Quantity

QUESTION: Final = "Question"

ON_OPTION: Final = Option(
    name="on",
    spellings=("--on",),
    metavar="END",
    help="Which end of an estimated memory decides: low (the default), likely or high.",
    panel=QUESTION,
)
SOLVE_OPTIONS: Final[Sequence[Option]] = (
    Option(
        name="for",
        spellings=("--for",),
        metavar="QUANTITY",
        help=f"What to solve for: {', '.join(quantity.value for quantity in Quantity)}.",
        panel=QUESTION,
    ),
    Option(
        name="concurrency",
        spellings=("--concurrency",),
        metavar="N",
        help="Need: requests of max_model_len at a time, as the engine counts them.",
        panel=QUESTION,
    ),
    Option(
        name="requests",
        spellings=("--requests",),
        metavar="MIX",
        help="Need: requests that run at a time, as in 4096:100,131072:2 (tokens:count).",
        panel=QUESTION,
    ),
    Option(
        name="step",
        spellings=("--step",),
        metavar="STEP",
        help="Grid of the answer, which is rounded to the safe side: 0.01 of a card and of a "
        "request, a byte of --kv-mem, a MiB of --gpu-mem, a token by default.",
        panel=QUESTION,
    ),
    ON_OPTION,
    *MODEL_OPTIONS,
    JSON_OPTION,
    EMIT_OPTION,
    QUIET_OPTION,
    DEBUG_OPTION,
    HELP_OPTION,
)

SOLVE_HELP: Final = CommandHelp(
    usage="Usage: kvplan solve MODEL --for QUANTITY [OPTIONS]",
    about=(
        "The least or most of one quantity with which the needs hold, and what binds. stdout "
        "holds the bare value, stderr the rest. Planning with the value holds; one step "
        "further does not.",
        MODEL_FORMS,
    ),
    examples=(
        "kvplan solve llama-3.1-8b --for gpu-memory-utilization --gpu h100 --concurrency 2",
        "kvplan solve serve.yaml --for max-model-len --kv-mem 40GiB --concurrency 8",
        "kvplan solve gemma-3-27b --for kv-mem --requests 4096:100,131072:2",
    ),
    options=SOLVE_OPTIONS,
    panels=(QUESTION, *PANELS),
    endings="Exit codes: 0 there is a value, 1 there is none, 2 the input is wrong, 3 it can't "
    "be planned, 70 a defect in kvplan.",
)
