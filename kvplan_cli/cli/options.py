"""The options of ``kvplan fit``: the engine's from its flag table, and kvplan's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.loader.flags import FLAGS, Flag, FlagKind
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option as the parser and the help know it.

    name: the engine's Python name, or kvplan's. spellings: with dashes, the long one first.
    negation: the long spelling that switches it off. metavar: what its value is; None for a
    switch. repeats: it may be given several times. panel: the heading it stands under.
    """

    name: str
    spellings: tuple[str, ...]
    help: str
    panel: str
    metavar: str | None = None
    negation: str | None = None
    repeats: bool = False


MEMORY: Final = "Memory"
LENGTH_AND_BATCH: Final = "Length and batch"
PARALLELISM: Final = "Parallelism"
CACHE: Final = "Cache"
MODEL_AND_ENGINE: Final = "Model and engine"
OUTPUT: Final = "Output"
PANELS: Final = (MEMORY, LENGTH_AND_BATCH, PARALLELISM, CACHE, MODEL_AND_ENGINE, OUTPUT)

_PANEL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    MEMORY: ("gpu_memory_utilization", "kv_cache_memory_bytes", "num_gpu_blocks_override"),
    LENGTH_AND_BATCH: (
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "performance_mode",
        "enable_chunked_prefill",
        "async_scheduling",
    ),
    PARALLELISM: (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "decode_context_parallel_size",
        "cp_kv_cache_interleave_size",
        "prefill_context_parallel_size",
        "data_parallel_size",
        "enable_expert_parallel",
        "all2all_backend",
    ),
    CACHE: (
        "kv_cache_dtype",
        "kv_cache_dtype_skip_layers",
        "block_size",
        "enable_prefix_caching",
        "prefix_match_unit",
        "disable_hybrid_kv_cache_manager",
        "disable_sliding_window",
        "mamba_cache_mode",
        "mamba_block_size",
        "mamba_cache_dtype",
        "mamba_ssm_cache_dtype",
    ),
}
_PANEL_OF: Final = {name: panel for panel, names in _PANEL_NAMES.items() for name in names}

_METAVARS: Final[Mapping[FlagKind, str | None]] = {
    FlagKind.INTEGER: "N",
    FlagKind.ENGINE_INTEGER: "N",
    FlagKind.LENGTH: "TOKENS",
    FlagKind.SIZE: "SIZE",
    FlagKind.NUMBER: "X",
    FlagKind.BOOLEAN: None,
    FlagKind.TEXT: "NAME",
    FlagKind.TEXTS: "NAMES",
    FlagKind.OBJECT: "JSON",
}
# The other spellings that the engine's parser takes, each with the one that is shown.
_SPELLINGS: Final = {
    **{alias: flag.dashed for flag in FLAGS for alias in flag.aliases},
    **{alias: flag.negations[0] for flag in FLAGS for alias in flag.negations[1:]},
}


def normalized_name(name: str) -> str:
    """An option's name without the dashes in front, in its one spelling."""
    dashed = name.replace("_", "-")
    return _SPELLINGS.get(dashed, dashed)


def _engine_option(flag: Flag) -> Option:
    repeats = flag.kind is FlagKind.TEXTS
    return Option(
        name=flag.name,
        spellings=(flag.option, *flag.short),
        help=f"{flag.help} Joined with commas, or given again." if repeats else flag.help,
        panel=_PANEL_OF.get(flag.name, MODEL_AND_ENGINE),
        metavar=_METAVARS[flag.kind],
        negation=f"--{flag.negations[0]}" if flag.negations else None,
        repeats=repeats,
    )


_OWN_OPTIONS: Final = (
    Option(
        name="kv_mem",
        spellings=("--kv-mem",),
        metavar="SIZE",
        help="What is there for the KV cache of a rank, as in 42.1GiB; "
        "a list with commas for unequal stages.",
        panel=MEMORY,
    ),
    Option(
        name="gpu_mem",
        spellings=("--gpu-mem",),
        metavar="SIZE",
        help="What the card has, as in 80GiB.",
        panel=MEMORY,
    ),
    Option(
        name="gpu",
        spellings=("--gpu",),
        metavar="NAME",
        help="A known card, as in h100: its memory, and what the engine chooses on it; "
        "a list with commas for unequal stages; auto asks the driver.",
        panel=MEMORY,
    ),
    Option(
        name="weights",
        spellings=("--weights",),
        metavar="SIZE",
        help="What the weights of a rank take, as in 15.1GiB; "
        "a list with commas for unequal stages.",
        panel=MEMORY,
    ),
    Option(
        name="engine_version",
        spellings=("--engine-version",),
        metavar="RELEASE",
        help="The vLLM release whose rules are followed where they differ, as in 0.32.0; "
        "the newest known without it.",
        panel=MODEL_AND_ENGINE,
    ),
    Option(
        name="environment",
        spellings=("--environment",),
        metavar="NAME",
        help="Which environment of a plan file, where it has several.",
        panel=MODEL_AND_ENGINE,
    ),
    Option(
        name="deployment",
        spellings=("--deployment",),
        metavar="NAME",
        help="Which deployment of a plan file, where it has several.",
        panel=MODEL_AND_ENGINE,
    ),
    Option(
        name="service",
        spellings=("--service",),
        metavar="NAME",
        help="Which serve command of a manifest, a compose file or Helm values.",
        panel=MODEL_AND_ENGINE,
    ),
    Option(
        name="from_log",
        spellings=("--from-log",),
        metavar="FILE",
        help="A start-up log, or - for stdin: measured memory, and what the log tells of model "
        "and flags.",
        panel=MEMORY,
    ),
    Option(
        name="profile",
        spellings=("--profile",),
        metavar="NAME",
        help="What --save-profile kept, by name or file: for the same model, card and release.",
        panel=MEMORY,
    ),
    Option(
        name="save_profile",
        spellings=("--save-profile",),
        metavar="NAME",
        help="Keep what the log measured, under a name or in a .json file.",
        panel=MEMORY,
    ),
    Option(name="json", spellings=("--json",), help="The whole answer as JSON.", panel=OUTPUT),
    Option(
        name="get",
        spellings=("--get",),
        metavar="PATH",
        help="One value of the JSON, bare, as in plan.num_blocks.",
        panel=OUTPUT,
    ),
    Option(
        name="debug",
        spellings=("--debug",),
        help="Show the traceback of an error.",
        panel=OUTPUT,
    ),
    Option(name="help", spellings=("--help",), help="Show this help and end.", panel=OUTPUT),
)

PLAN_OPTIONS: Final[Sequence[Option]] = (
    *_OWN_OPTIONS,
    *(_engine_option(flag) for flag in FLAGS),
)

# What all planning commands share: the memory and the engine's flags.
MODEL_OPTIONS: Final[Sequence[Option]] = tuple(
    option for option in PLAN_OPTIONS if option.panel != OUTPUT and option.name != "save_profile"
)
JSON_OPTION, DEBUG_OPTION, HELP_OPTION = (
    next(option for option in _OWN_OPTIONS if option.name == name)
    for name in ("json", "debug", "help")
)
EMIT_OPTION: Final = Option(
    name="emit",
    spellings=("--emit",),
    metavar="FORM",
    help="Print the flags that the plan stands for, and nothing else: serve (a command), yaml "
    "(the engine's --config), or env (variables).",
    panel=OUTPUT,
)
QUIET_OPTION: Final = Option(
    name="quiet",
    spellings=("--quiet",),
    help="Nothing on stderr but errors.",
    panel=OUTPUT,
)
VERBOSE_OPTION: Final = Option(
    name="verbose",
    spellings=("--verbose",),
    help="With the origin of every input, and the sources of the memory in full.",
    panel=OUTPUT,
)
FIT_OPTIONS: Final[Sequence[Option]] = (
    *PLAN_OPTIONS,
    EMIT_OPTION,
    replace(QUIET_OPTION, help="Only the answer, in one sentence."),
    VERBOSE_OPTION,
)
