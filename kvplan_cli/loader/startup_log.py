"""``--from-log``: a start-up log from a file or stdin, bounded, as flags and measured memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_bounded
from kvplan_cli.loader.flag_names import IRRELEVANT_FLAGS
from kvplan_cli.loader.flag_values import GivenFlags, is_known_flag, merge, read_flags
from kvplan_cli.logs.available import available_memory
from kvplan_cli.logs.printed import Figure, Printed
from kvplan_cli.logs.read import read_log
from kvplan_cli.logs.startup import ProcessFigures, Setting, StartupLog
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.measured import AVAILABLE, MEASURED_NAMES, MeasuredMemory, MeasuredRank
from kvplan_cli.units import MIB
from kvplan_cli.values import dataclass

MAX_LOG_BYTES: Final = 64 * MIB
STDIN: Final = "-"
_WAY_OUT: Final = "give the engine's output from its start on: vllm serve ... 2>&1 | tee serve.log"
# ``.../models--org--name/snapshots/...``: the hub library's cache.
_CACHED: Final = re.compile(r"models--([\w.-]{1,96}?)--([\w.-]{1,96})(?:/|$)", re.ASCII)
# The engine's config line under the flags' names.
_RESOLVED_FLAGS: Final = {
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "kv_cache_dtype",
    "dtype": "dtype",
    "revision": "revision",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "enable_prefix_caching": "enable_prefix_caching",
}
_PRINTED_FLAGS: Final = {
    Figure.MAX_MODEL_LEN: "max_model_len",
    Figure.MAX_NUM_BATCHED_TOKENS: "max_num_batched_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A log, read.

    name: how answers call it. model: as the log names it; None where it does not. flags: what
    the start was given and resolved, each with its line.
    """

    name: str
    log: StartupLog
    model: str | None
    flags: GivenFlags
    measured: MeasuredMemory


def load_log(reference: str, where: str = "--from-log") -> LoadedLog:
    """Read a log. reference: a file, or ``-`` for stdin.

    Raises: InputError where it can't be read, is too large, or tells nothing of a start.
    """
    name, text = _read(reference, where)
    log = read_log(text)
    if not log.processes:
        reason = "holds no line of a start of vLLM that kvplan knows"
        raise InputError(Problem(where=f"{where}: {name}", reason=reason, way_out=_WAY_OUT))
    flags = _flags(log, name)
    return LoadedLog(
        name=name,
        log=log,
        model=_model(log),
        flags=flags,
        measured=MeasuredMemory(
            origin=name,
            release=None if log.release is None else log.release.value,
            ranks=tuple(_ranks(log, name)),
            flags=flags.values,
            tells_all_flags=bool(log.given),
        ),
    )


def _read(reference: str, where: str) -> tuple[str, str]:
    if reference == STDIN:
        return "stdin", _text(_stdin(where))
    path = Path(reference)
    return place(path), _text(read_bounded(path, MAX_LOG_BYTES, _WAY_OUT))


def _stdin(where: str) -> bytes:
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_LOG_BYTES + 1)
    if len(data) > MAX_LOG_BYTES:
        reason = f"more than {MAX_LOG_BYTES // MIB} MiB"
        raise InputError(Problem(where=f"{where}: stdin", reason=reason, way_out=_WAY_OUT))
    return data


def _text(data: bytes) -> str:
    """Logs hold whatever was printed; Windows shells redirect in UTF-16."""
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")


def _model(log: StartupLog) -> str | None:
    """The model's name; a path into the hub library's cache stands for its repository."""
    for settings in (log.given, log.resolved):
        for key in ("model", "model_tag"):
            named = settings.get(key)
            if named is not None and isinstance(named.value, str) and named.value:
                cached = _CACHED.search(named.value)
                return f"{cached[1]}/{cached[2]}" if cached else named.value
    return None


def _flags(log: StartupLog, name: str) -> GivenFlags:
    """What the start was given, over what it resolved; a value that kvplan can't read is told."""
    read = GivenFlags()
    for key, setting in (*_resolved(log), *_given(log)):
        place_of = f"{name}:{setting.line}"
        try:
            flag = read_flags({key: setting.value}, place_of)
        except InputError as error:
            note = f"{error.problems[0]}; the plan goes without it"
            read = merge(read, GivenFlags(notes=(note,)))
            continue
        unmodelled = (*flag.unestimated, *flag.refused)
        notes = tuple(f"{where}: kvplan does not model this flag" for where in unmodelled)
        read = merge(
            read,
            GivenFlags(
                values=flag.values, origins=dict.fromkeys(flag.values, place_of), notes=notes
            ),
        )
    return read


def _given(log: StartupLog) -> Iterator[tuple[str, Setting]]:
    for key, setting in log.given.items():
        dashed = key.replace("_", "-")
        if is_known_flag(key) and dashed not in IRRELEVANT_FLAGS and setting.value is not None:
            yield key, setting


def _resolved(log: StartupLog) -> Iterator[tuple[str, Setting]]:
    for key, flag in _RESOLVED_FLAGS.items():
        setting = log.resolved.get(key)
        if setting is None or setting.value is None:
            continue
        value = setting.value
        if key == "dtype":
            value = str(value).removeprefix("torch.")
        yield flag, Setting(value=value, line=setting.line)
    for figure, flag in _PRINTED_FLAGS.items():
        printed = log.smallest(figure)
        if printed is not None:
            yield flag, Setting(value=printed.low, line=printed.line)


def _ranks(log: StartupLog, name: str) -> Iterator[MeasuredRank]:
    for process in log.processes:
        sizes = _sizes(log, process, name)
        if sizes:
            yield MeasuredRank(
                name=process.process.name, stage=process.process.pipeline_rank, sizes=sizes
            )


def _sizes(log: StartupLog, process: ProcessFigures, name: str) -> Mapping[str, Estimate]:
    found: dict[str, Any] = {}
    available = available_memory(log, process)
    if available is not None:
        lines = ",".join(str(line) for line, _ in available.lines)
        found[AVAILABLE] = _measured(available.low, available.high, f"{name}:{lines}")
    for figure, printed in process.figures.items():
        if figure.value in MEASURED_NAMES and figure is not Figure.AVAILABLE:
            found[figure.value] = _estimate(printed, name)
    return {key: found[key] for key in MEASURED_NAMES if key in found}


def _estimate(printed: Printed, name: str) -> Estimate:
    return _measured(printed.low, printed.high, f"{name}:{printed.line}")


def _measured(low: int, high: int, note: str) -> Estimate:
    return Estimate(low=low, likely=(low + high) // 2, high=high, source=Source.MEASURED, note=note)
