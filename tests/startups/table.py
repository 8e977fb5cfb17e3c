"""Predicted against printed on strangers' start-ups: ``python -m tests.startups.table``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import KvplanError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.logs.printed import Figure, printed_gib
from kvplan_cli.memory.budget import Estimate
from kvplan_cli.memory.weights.count import count_weights
from kvplan_cli.memory.weights.lora import lora_tensors
from kvplan_cli.memory.weights.tensors import total_bytes
from kvplan_cli.resolution import ResolvedModel
from kvplan_cli.results_verify import Agreement, Comparison
from kvplan_cli.service.compare import compare_capacity
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass
from tests.startups import memory_cases
from tests.startups.cases import Startup, card, config_of, explained, resolved, startups

CAPACITY: Final = (Figure.TOKENS.value, Figure.CONCURRENCY.value)
_AGREE: Final = (Agreement.EQUAL, Agreement.WITHIN_ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one start-up.

    error: the distance from the print's interval, relative for counts and in GiB for sizes.
    inside: it is the printed one within rounding, or inside the stated range of an estimate.
    """

    id: str
    release: str
    model: str
    figure: str
    printed: str
    predicted: str
    error: float
    inside: bool
    note: str = ""


def capacity_rows() -> Iterator[Row]:
    """Tokens, requests, needs and lengths from the printed memory, by the release's rules."""
    for startup in startups():
        if startup.question is None:
            continue
        for compared in compare_capacity(startup.log, startup.question):
            yield _capacity_row(startup, compared)


def _capacity_row(startup: Startup, compared: Comparison) -> Row:
    kept = explained()
    note = kept["untold"].get(startup.id) or kept["off"].get(startup.id, {}).get(compared.figure)
    supplied = kept["supplied"].get(startup.id, {}).get("why")
    low, high = compared.predicted_low, compared.predicted_high
    error = 0.0
    if low is None or high is None:
        error = 1.0
    elif compared.agreement is Agreement.OFF:
        near = low if compared.printed_high < low else high
        error = abs(compared.printed_low - near) / max(1, compared.printed_low)
    return Row(
        id=startup.id,
        release=startup.release,
        model=str(startup.entry["config"]),
        figure=compared.figure,
        printed=compared.printed,
        predicted=_range(compared),
        error=error,
        inside=compared.agreement in _AGREE,
        note=note or supplied or compared.reason or "",
    )


def _range(compared: Comparison) -> str:
    low, high = compared.predicted_low, compared.predicted_high
    if low is None or high is None:
        return "-"
    if compared.figure == Figure.NEEDED.value:
        return f"{low / GIB:.2f}"
    if compared.figure == Figure.CONCURRENCY.value:
        ends = [f"{end / 100:.2f}" for end in (low, high)]
    else:
        ends = [f"{end:,}" for end in (low, high)]
    return ends[0] if low == high else "-".join(ends)


def untold(row: Row) -> bool:
    """Whether the start-up does not tell a flag that sizes its cache."""
    return row.id in explained()["untold"]


def memory_rows() -> Iterator[Row]:
    """Weights, peaks and available memory from the card and the config alone."""
    for case in memory_cases.memory_cases():
        lines = {line.name: line.bytes_per_rank for line in case.budget.lines}
        point = case.point
        yield _size_row(case, "weights", point["weights"], lines["weights"])
        if memory_cases.has_total(case):
            if point.get("act") is not None:
                yield _size_row(case, "transient", point["act"], _peak(point, lines))
            name = "available, text" if case.plain_text else "available, vision"
            yield _size_row(case, name, point["avail"], case.budget.available)
    yield from _weights_rows()


def _peak(point: Any, lines: dict[str, Estimate]) -> Estimate:
    """What the release prints as peak: with the workspace before 0.26, with graphs after."""
    parts = [lines["transient"]]
    if point["version"] < "0.26":
        parts.append(lines["persistent_buffers"])
    elif point.get("act_includes_cg"):
        parts.append(lines["cuda_graphs"])
    return Estimate(
        low=sum(part.low for part in parts),
        likely=sum(part.likely for part in parts),
        high=sum(part.high for part in parts),
        source=parts[0].source,
    )


def _weights_rows() -> Iterator[Row]:
    """Weights of the start-ups whose whole config is at hand."""
    for startup in startups():
        entry, config = startup.entry, config_of(startup.entry)
        if startup.question is None or config is None or "weights_gib" not in entry:
            continue
        try:
            model, args = resolved(entry, config)
            if not _loads(entry, model.settings, args):
                continue
            weights = _counted(HfConfig(config, startup.id), entry, model, args)
        except KvplanError:
            continue
        yield _row(
            startup.id,
            startup.release,
            str(entry["config"]),
            "weights",
            entry["weights_gib"],
            weights,
        )


def _counted(
    config: HfConfig, entry: Mapping[str, Any], model: ResolvedModel, args: EngineArgs
) -> Estimate:
    """Weights of a rank of the first stage on the start-up's card, with room for adapters."""
    shape, settings = model.shape, model.settings
    capability = card(entry).capability
    weights = count_weights(config, shape, settings, args, capability=capability)[0]
    room = total_bytes(lora_tensors(config, shape, settings, args)[0])
    return replace(
        weights,
        low=weights.low + room,
        likely=weights.likely + room,
        high=weights.high + room,
    )


def _loads(entry: Mapping[str, Any], settings: ResolvedSettings, args: EngineArgs) -> bool:
    """Whether the start-up loads what its config says: that format, and no drafter beside it."""
    flags = entry.get("flags", {})
    printed = flags.get("quantization_resolved", flags.get("quantization"))
    families = {None: None, "gpt_oss_mxfp4": "mxfp4", "modelopt": "modelopt_fp4"}
    resolved_name = families.get(settings.quantization, settings.quantization)
    same = printed is None or families.get(printed, printed) == resolved_name
    return same and args.speculative_config is None


def _size_row(
    case: memory_cases.MemoryCase, figure: str, printed: float, predicted: Estimate
) -> Row:
    point = case.point
    return _row(case.id, point["version"], point["cfg"], figure, printed, predicted)


def _row(
    id: str, release: str, model: str, figure: str, printed: float, predicted: Estimate
) -> Row:
    shown = printed_gib(str(printed), 1)
    likely = predicted.likely
    distance = max(shown.low - likely, likely - shown.high, 0)
    return Row(
        id=id,
        release=release,
        model=model,
        figure=figure,
        printed=str(printed),
        predicted=(f"{likely / GIB:.2f} ({predicted.low / GIB:.2f}-{predicted.high / GIB:.2f})"),
        error=distance / GIB,
        inside=shown.holds(predicted.low, predicted.high),
        note=explained()["weights"].get(id, "") if figure == "weights" else "",
    )


def summary(name: str, rows: Sequence[Row], unit: str) -> str:
    """How many agree, and the median, 90 % and worst error."""
    errors = sorted(row.error for row in rows)
    agree = sum(row.inside for row in rows)
    share = 100 * agree / len(rows)
    numbers = (statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1], errors[-1])
    words = ", ".join(
        f"{label} {_error(value, unit)}"
        for label, value in zip(("median", "90 %", "worst"), numbers, strict=True)
    )
    return f"{name}: {agree} of {len(rows)} agree ({share:.0f} %), error: {words}"


def _error(value: float, unit: str) -> str:
    return f"{100 * value:.2f} %" if unit == "%" else f"{value:.3f} GiB"


def report() -> Iterator[str]:
    """The whole table, then its summaries, then what is not compared."""
    capacity, memory = list(capacity_rows()), list(memory_rows())
    for row in (*capacity, *memory):
        mark = " " if row.inside else "*"
        yield (
            f"{mark} {row.id:<5} {row.release[:12]:<13}{row.model[:44]:<45}{row.figure:<18}"
            f"{row.printed:>10}  {row.predicted:<22}  {row.note}".rstrip()
        )
    yield ""
    told = [row for row in capacity if not untold(row)]
    for figure in dict.fromkeys(row.figure for row in capacity):
        yield summary(figure, [row for row in told if row.figure == figure], "%")
    both = [row for row in told if row.figure in CAPACITY]
    yield summary("tokens and concurrency", both, "%")
    yield summary(
        "the same, flags untold included", [r for r in capacity if r.figure in CAPACITY], "%"
    )
    for figure in dict.fromkeys(row.figure for row in memory):
        yield summary(figure, [row for row in memory if row.figure == figure], "GiB")
    yield ""
    yield from (f"not compared: {each.id} {each.why}" for each in startups() if each.why)


if __name__ == "__main__":
    print("\n".join(report()))
