"""The options and the help of ``kvplan sweep``."""

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
    QUIET_OPTION,
    Option,
)
from kvplan_cli.cli.solve_options import ON_OPTION, QUESTION

FORMATS: Final = ("table", "csv", "jsonl", "markdown", "json")

SWEEP_OPTIONS: Final[Sequence[Option]] = (
    Option(
        name="vary",
        spellings=("--vary",),
        metavar="NAME=VALUES",
        help="A flag, gpu, gpu-mem, kv-mem or weights and its values: a list 1,2,4, a range "
        "1..8, with a step 0.80..0.95+0.05, by a factor 8k..128k*2, or default. Given again "
        "for each; all combinations are planned.",
        panel=QUESTION,
        repeats=True,
    ),
    Option(
        name="where",
        spellings=("--where",),
        metavar="CONDITION",
        help="Keep the rows that pass, as in 'max_concurrency>=8': a column, then >= <= > < = "
        "or !=, then a value. Given again, all must hold.",
        panel=QUESTION,
        repeats=True,
    ),
    Option(
        name="sort",
        spellings=("--sort",),
        metavar="COLUMNS",
        help="Order of the rows, as in gpus,-max_concurrency; a minus puts the largest first. "
        "The first that fits is then the best.",
        panel=QUESTION,
    ),
    ON_OPTION,
    *MODEL_OPTIONS,
    Option(
        name="format",
        spellings=("--format",),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; table without it.",
        panel=OUTPUT,
    ),
    JSON_OPTION,
    Option(
        name="limit",
        spellings=("--limit",),
        metavar="N",
        help="Most rows of the table, 40 without it; 0 for all. Other formats hold all.",
        panel=OUTPUT,
    ),
    Option(
        name="plot",
        spellings=("--plot",),
        help="Draw the rows beneath the table.",
        panel=OUTPUT,
    ),
    Option(
        name="plot_file",
        spellings=("--plot-file",),
        metavar="FILE",
        help="Draw them into a .svg, .png or .pdf (needs the extra kvplan-cli[plot]).",
        panel=OUTPUT,
    ),
    Option(
        name="plot_y",
        spellings=("--plot-y",),
        metavar="COLUMN",
        help="What is drawn; max_concurrency without it.",
        panel=OUTPUT,
    ),
    QUIET_OPTION,
    DEBUG_OPTION,
    HELP_OPTION,
)

SWEEP_HELP: Final = CommandHelp(
    usage="Usage: kvplan sweep MODEL --vary NAME=VALUES [OPTIONS]",
    about=(
        "A table of what-ifs: every combination of the varied flags, planned. Points that the "
        "engine would refuse are rows with the reason. An interrupt keeps what was done.",
        MODEL_FORMS,
    ),
    examples=(
        "kvplan sweep llama-3.1-70b --gpu h100 --vary tensor-parallel-size=2,4,8 "
        "--vary max-model-len=8k..128k*2",
        "kvplan sweep serve.yaml --kv-mem 40GiB --vary kv-cache-dtype=auto,fp8 "
        "--where 'max_concurrency>=8' --sort gpus",
        "kvplan sweep gemma-3-27b --vary gpu=h100,h200,b200 --format csv",
    ),
    options=SWEEP_OPTIONS,
    panels=(QUESTION, *PANELS),
    endings="Exit codes: 0 some row fits, 1 none does, 2 the input is wrong, 3 it can't be "
    "planned, 70 a defect in kvplan, 130 interrupted.",
)
