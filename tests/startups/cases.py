"""Public start-ups as questions: what was started, and what it printed."""

from __future__ import annotations

import ast
import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import KvplanError, MissingFieldError
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.loader.draft_model import DRAFT_PLACE
from kvplan_cli.loader.flag_values import engine_args_from
from kvplan_cli.logs.printed import Figure, Printed, printed_count, printed_gib, printed_hundredths
from kvplan_cli.logs.releases import release_of
from kvplan_cli.logs.startup import ProcessFigures, Setting, StartupLog
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.resolution import ResolvedModel, planner_settings, resolve
from kvplan_cli.service.compare import Question
from kvplan_cli.service.told_notices import told_rules
from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass

DATA: Final = Path(__file__).parent.parent / "data" / "startups"
_ENOUGH: Final = 1 << 50
# What start-ups were on; the engine's settings and backends ask for these.
_CARDS: Final = (
    ("GB10", "NVIDIA GB10", (12, 1), 119.7),
    ("5090", "NVIDIA GeForce RTX 5090", (12, 0), 31.4),
    ("PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 94.97),
    ("A100", "NVIDIA A100-SXM4-80GB", (8, 0), 79.25),
    ("3090", "NVIDIA GeForce RTX 3090", (8, 6), 23.56),
    ("4090", "NVIDIA GeForce RTX 4090", (8, 9), 23.65),
    ("T4", "Tesla T4", (7, 5), 14.56),
    ("B200", "NVIDIA B200", (10, 0), 178.35),
    ("L40S", "NVIDIA L40S", (8, 9), 44.42),
    ("H200", "NVIDIA H200", (9, 0), 139.81),
)
_FLAGS: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "decode_context_parallel_size",
    "kv_cache_dtype",
    "block_size",
    "max_num_seqs",
    "enable_expert_parallel",
    "mamba_ssm_cache_dtype",
    "kv_cache_memory_bytes",
    "enforce_eager",
    "enable_lora",
    "runner",
)
# Under more than one name: as given, else as resolved.
_EITHER: Final = {
    "max_model_len": ("max_model_len", "max_seq_len_resolved"),
    "max_num_batched_tokens": ("max_num_batched_tokens", "max_num_batched_tokens_resolved"),
    "dtype": ("dtype_resolved", "dtype"),
    "enable_prefix_caching": ("enable_prefix_caching", "enable_prefix_caching_resolved"),
}
_FIGURES: Final = {
    "kv_tokens": (Figure.TOKENS, printed_count),
    "gpu_blocks": (Figure.GPU_BLOCKS, printed_count),
    "needed_kv_gib": (Figure.NEEDED, printed_gib),
    "estimated_max_len": (Figure.ESTIMATED_LENGTH, printed_count),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """One public start-up. why: why nothing of it can be compared, None where it can."""

    id: str
    entry: Mapping[str, Any]
    log: StartupLog
    question: Question | None
    why: str | None = None

    @property
    def release(self) -> str:
        return str(self.entry.get("vllm_version") or "")


@cache
def _json(name: str) -> Any:
    path = DATA / name
    data = path.read_bytes()
    return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)


def explained() -> Mapping[str, Mapping[str, Any]]:
    """The kept reasons, by kind."""
    kept: Mapping[str, Mapping[str, Any]] = _json("explained.json")
    return kept


def memory_points() -> tuple[tuple[Mapping[str, Any], ...], Mapping[str, Any]]:
    """Memory breakdowns, and the sizes of their models."""
    document = _json("memory.json")
    return tuple(document["points"]), document["models"]


@cache
def startups() -> tuple[Startup, ...]:
    """All of them, in the file's order."""
    return tuple(_startup(entry) for entry in _json("startups.json")["startups"])


def _startup(entry: Mapping[str, Any]) -> Startup:
    log = _log(entry)
    known = _json("configs.json.xz")["configs"].get(entry["config"])
    made: Question | str
    if known is None:
        made = "the model's config is not at hand"
    elif "lacks" in known:
        made = f"the config at hand lacks {known['lacks']}"
    else:
        try:
            made = _question(entry, known["config"], log)
        except KvplanError as error:
            made = error.problems[0].reason
    asked = isinstance(made, Question)
    return Startup(
        id=entry["id"],
        entry=entry,
        log=log,
        question=made if asked else None,  # type: ignore[arg-type]
        why=None if asked else str(made),
    )


def config_of(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The start-up's whole config; None where only the fields that size the cache are there."""
    known = _json("configs.json.xz")["configs"].get(entry["config"])
    whole = known is not None and known["kind"] != "kv_fields"
    return known["config"] if whole else None


def resolved(
    entry: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[ResolvedModel, EngineArgs]:
    """The engine's settings for a start-up, by its release's rules. Raises: KvplanError."""
    args, rules = _args(entry), told_rules(entry.get("vllm_version"))
    try:
        return resolve(HfConfig(config, entry["config"]), {}, args, card(entry), rules), args
    except MissingFieldError as missing:
        if missing.origin == DRAFT_PLACE:
            raise
    config, _ = with_class_defaults(config)
    return resolve(HfConfig(config, entry["config"]), {}, args, card(entry), rules), args


def _question(
    entry: Mapping[str, Any], config: Mapping[str, Any], log: StartupLog
) -> Question | str:
    model, args = resolved(entry, config)
    settings = planner_settings(model, args)
    available = _available(entry, args)
    if available is None:
        if "gpu_blocks" not in entry:
            return "no memory for the cache is printed"
        settings = replace(settings, num_gpu_blocks_override=entry["gpu_blocks"])
        available = Estimate.certain(_ENOUGH, Source.GIVEN)
    return Question(
        workers=model.backends.stages,
        settings=settings,
        available=(available,) * len(model.backends.stages),
        release_known=log.release_numbers is not None,
    )


def _available(entry: Mapping[str, Any], args: EngineArgs) -> Estimate | None:
    exact = args.kv_cache_memory_bytes or entry.get("available_kv_bytes")
    if exact is not None:
        return Estimate.certain(exact, Source.MEASURED)
    if "available_kv_gib" not in entry:
        return None
    printed = printed_gib(str(entry["available_kv_gib"]), 1)
    return Estimate(
        low=printed.low, likely=printed.likely, high=printed.high, source=Source.MEASURED
    )


def _args(entry: Mapping[str, Any]) -> EngineArgs:
    flags = dict(_given(entry))
    supplied = explained()["supplied"].get(entry["id"], {})
    flags.update(supplied.get("flags", {}))
    partition = entry.get("flags", {}).get("VLLM_PP_LAYER_PARTITION")
    env = {"VLLM_PP_LAYER_PARTITION": partition} if partition else {}
    return replace(engine_args_from(flags, entry["id"]), env=env)


def _given(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    given = entry.get("flags", {})
    for name in _FLAGS:
        if name in given:
            yield name, given[name]
    for name, spellings in _EITHER.items():
        value = next((given[each] for each in spellings if each in given), None)
        if name == "max_model_len" and value is None:
            value = entry.get("concurrency_len") or entry.get("needed_for_len")
        if value is not None:
            yield name, value
    if given.get("quantization") == "fp8":
        yield "quantization", "fp8"  # of a checkpoint that may have none
    drafter = given.get("speculative_config")
    if isinstance(drafter, str) and drafter.startswith("{"):
        yield "speculative_config", _drafter(ast.literal_eval(drafter), entry)


def _drafter(written: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """What sizes the cache; a drafter inside the target's own checkpoint needs no name."""
    sized = {key: written[key] for key in ("method", "num_speculative_tokens") if key in written}
    name = str(written.get("model", ""))
    if name and not str(entry["config"]).endswith(name):
        sized["model"] = name
    return sized


def card(entry: Mapping[str, Any]) -> Gpu:
    """The card as the notes call it; an H100 where they do not."""
    words, total = str(entry.get("gpu") or ""), entry.get("gpu_total_gib")
    words = explained()["supplied"].get(entry["id"], {}).get("card", words)
    for part, name, capability, gib in _CARDS:
        if part in words:
            size = int((total or gib) * GIB)
            return Gpu(name=name, capability=capability, total_memory_bytes=size)
    if total is None:
        return H100_80GB
    return replace(H100_80GB, total_memory_bytes=int(total * GIB))


def _log(entry: Mapping[str, Any]) -> StartupLog:
    figures: dict[Figure, Printed] = {
        figure: read(str(entry[key]), 1) for key, (figure, read) in _FIGURES.items() if key in entry
    }
    if "max_concurrency" in entry:
        text = f"{entry['max_concurrency']:.2f}"
        figures[Figure.CONCURRENCY] = printed_hundredths(text, 1)
    release = entry.get("vllm_version")
    told = release_of(release) is not None
    return StartupLog(
        release=Setting(value=release, line=1) if told else None,
        processes=(ProcessFigures(figures=figures),),
    )
