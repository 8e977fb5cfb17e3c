"""From the options that all planning commands share to a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvplan_cli.cli.parser import Call, model_of
from kvplan_cli.loader.environment import process_environment
from kvplan_cli.loader.flag_values import COMMAND_LINE, GivenFlags, read_flags
from kvplan_cli.loader.flags import FLAGS, FlagKind
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.loader.sizes import parse_size, parse_sizes
from kvplan_cli.results import FitRequest

# Two answers to one question: both names, and which to drop.
_CONTRADICTIONS: Final = (
    ("kv_mem", "gpu_mem", "--kv-mem says what is left of the card: drop --gpu-mem"),
    ("kv_mem", "weights", "--kv-mem is what is left without the weights: drop --weights"),
    ("kv_mem", "kv_cache_memory_bytes", "both say what is there for the cache: drop one"),
    ("kv_cache_memory_bytes", "weights", "the engine then ignores the weights: drop --weights"),
    ("from_log", "profile", "both say what was measured: drop one"),
    ("kv_mem", "from_log", "both say what is there for the cache: drop one"),
    ("kv_mem", "profile", "both say what is there for the cache: drop one"),
    ("emit", "json", "both say what is printed: drop one"),
    ("emit", "get", "both say what is printed: drop one"),
    ("quiet", "verbose", "drop one"),
    ("quiet", "get", "--get prints one value and nothing else: drop --quiet"),
    ("json", "get", "--get prints one value of the JSON: drop --json"),
)


def read_request(call: Call, problems: Problems, behind_dashes: Sequence[str] = ()) -> FitRequest:
    """MODEL, engine flags and memory. Faults go to ``problems``; the request then counts for
    nothing. behind_dashes: a serve command in place of MODEL."""
    given = call.values
    model = _model(call, problems, behind_dashes)
    if "save_profile" in given and "from_log" not in given:
        problems.add("--save-profile", "there is nothing measured to keep", "give --from-log FILE")
    _check_contradictions(given, problems)
    flags = engine_flags(given, call.dotted, problems, call.engine)
    kv_mem, weights = _sizes(given, "kv_mem", problems), _sizes(given, "weights", problems)
    gpu_mem = None
    with problems.collecting():
        if "gpu_mem" in given:
            gpu_mem = parse_size(given["gpu_mem"], "--gpu-mem")
    values = dict(flags.values)
    return FitRequest(
        model=model,
        command=tuple(behind_dashes),
        service=given.get("service"),
        hf_overrides=values.pop("hf_overrides", {}),
        flags={**_unmodelled(call), **values},
        env=process_environment(),
        kv_mem_bytes=kv_mem,
        gpu=given.get("gpu"),
        gpu_mem_bytes=gpu_mem,
        weights_bytes=weights,
        engine_version=given.get("engine_version"),
        from_log=given.get("from_log"),
        profile=given.get("profile"),
        save_profile=given.get("save_profile"),
        environment=given.get("environment"),
        deployment=given.get("deployment"),
    )


def _model(call: Call, problems: Problems, behind_dashes: Sequence[str]) -> str:
    if behind_dashes:
        for word in call.models[:1]:
            reason = f"{shown(word)}, and a serve command behind -- that names its model"
            problems.add("MODEL", reason, "drop one")
        return ""
    measured = "from_log" in call.values or "profile" in call.values
    # A log and a profile name their model.
    return "" if measured and not call.models else model_of(call, problems)


def _unmodelled(call: Call) -> dict[str, Any]:
    """The engine's flags that stay as they are, for the answer to say so."""
    modelled = {flag.dashed for flag in FLAGS}
    return {name: value for name, value in call.engine.items() if name not in modelled}


def _check_contradictions(given: Mapping[str, Any], problems: Problems) -> None:
    for first, second, way_out in _CONTRADICTIONS:
        if first in given and second in given:
            names = f"{_option(first)} and {_option(second)}"
            problems.add(names, "contradict each other", way_out)


def contradicted(given: Mapping[str, Any]) -> frozenset[str]:
    """The options that do not go with those given."""
    pairs = [(first, second) for first, second, _ in _CONTRADICTIONS]
    pairs += [(second, first) for first, second in pairs]
    return frozenset(second for first, second in pairs if first in given)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def engine_flags(
    given: Mapping[str, Any],
    dotted: Mapping[str, Any],
    problems: Problems,
    others: Mapping[str, Any] | None = None,
) -> GivenFlags:
    """The engine's flags among the options; faults go to ``problems``. others: those that have
    no option here, by dashed name."""
    raw: dict[str, Any] = dict(others or {})
    for flag in FLAGS:
        value = given.get(flag.name)
        if value is None:
            continue
        if flag.kind is FlagKind.TEXTS:
            value = [part.strip() for text in value for part in text.split(",")]
        raw[flag.dashed] = value
    with problems.collecting():
        return read_flags({**raw, **dotted}, COMMAND_LINE)
    return GivenFlags()


def _sizes(given: Mapping[str, Any], name: str, problems: Problems) -> tuple[int, ...]:
    with problems.collecting():
        if name in given:
            return parse_sizes(given[name], _option(name))
    return ()


def read_form(call: Call, problems: Problems) -> str | None:
    """``--emit``: the form of the flags; None without it. Faults go to ``problems``."""
    form: str | None = call.values.get("emit")
    if form is None:
        return None
    from kvplan_cli.report.emit import FORMS

    if form not in FORMS:
        problems.add("--emit", f"{shown(form)} is no form", f"one of {', '.join(FORMS)}")
    return form
