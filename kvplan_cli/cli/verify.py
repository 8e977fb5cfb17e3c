"""``kvplan verify LOG``: from the call's words to the comparison on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.cli.options import PLAN_OPTIONS
from kvplan_cli.cli.parser import Call, parse
from kvplan_cli.cli.request import engine_flags
from kvplan_cli.cli.streams import page, write
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.results import FitRequest
from kvplan_cli.values import dataclass

# What says how much memory there is: here the log does.
_LEFT_OUT: Final = frozenset({"kv_mem", "gpu_mem", "weights", "from_log", "profile"})
VERIFY_OPTIONS: Final = tuple(option for option in PLAN_OPTIONS if option.name not in _LEFT_OUT)
_LOG_FORMS: Final = "a start-up log, or - for stdin"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCall:
    """What is asked, and how the answer is shown. get: a path of the document."""

    request: FitRequest
    as_json: bool = False
    get: str | None = None


def show_help() -> None:
    """Put the help of ``kvplan verify`` on stdout."""
    from kvplan_cli.cli import help as helps

    helps.show_help(
        helps.CommandHelp(
            usage="Usage: kvplan verify LOG [MODEL] [OPTIONS]",
            about=(
                "A start-up log against the plan: each figure that the engine printed beside the "
                "predicted one - equal, within print rounding, inside the range of an estimate, "
                "or off with the likely reason.",
                "LOG is a file, or - for stdin. Model, flags and release are read from it where "
                "it tells them; MODEL and flags given here win.",
            ),
            options=VERIFY_OPTIONS,
            examples=(
                "kvplan verify serve.log",
                "docker logs vllm 2>&1 | kvplan verify - llama-3.1-8b --json",
                "kvplan verify serve.log --save-profile llama-on-a100",
            ),
            endings="Exit codes: 0 all agree, 1 one is off, 2 the input is wrong, 3 it can't be "
            "planned, 70 a defect in kvplan.",
        )
    )


def run(words: Sequence[str]) -> int:
    """Compare, write the document, and say how the process ends.

    Raises: KvplanError where there is nothing to compare.
    """
    call = read_call(words)

    from kvplan_cli.report.verify_document import verify_document
    from kvplan_cli.service.verify import verify

    result = verify(call.request)
    document = verify_document(result)
    if call.get is not None:
        from kvplan_cli.report.paths import bare, get_path

        write(f"{bare(get_path(document, call.get))}\n")
    elif call.as_json:
        from kvplan_cli.report.json_form import dumps

        write(f"{dumps(document)}\n")
    else:
        from kvplan_cli.report.verify_table import render_verify

        write(render_verify(document, page()))
    return int(result.exit_code)


def read_call(words: Sequence[str]) -> VerifyCall:
    """The call's words, read and checked. InputError with all faults at once."""
    problems = Problems()
    call = parse(words, VERIFY_OPTIONS, problems)
    given = call.values
    log, model = _places(call, problems)
    flags = engine_flags(given, call.dotted, problems, call.engine)
    get = given.get("get")
    if get is not None and "json" in given:
        problems.add("--json and --get", "contradict each other", "drop --json")
    with problems.collecting():
        _check_get(get)
    problems.finish()
    values = dict(flags.values)
    return VerifyCall(
        request=FitRequest(
            model=model,
            service=given.get("service"),
            hf_overrides=values.pop("hf_overrides", {}),
            flags=values,
            gpu=given.get("gpu"),
            from_log=log,
            save_profile=given.get("save_profile"),
            engine_version=given.get("engine_version"),
        ),
        as_json=bool(given.get("json")),
        get=get,
    )


def _places(call: Call, problems: Problems) -> tuple[str, str]:
    """LOG and MODEL, the second one optional."""
    places = call.models
    if not places or not places[0].strip():
        if not call.unknown:
            problems.add("LOG", "is missing", _LOG_FORMS)
        return "", ""
    if not call.unknown:
        for word in places[2:]:
            problems.add("MODEL", f"{shown(word)} is one word too many", "LOG, then MODEL")
    return places[0], places[1] if len(places) > 1 else ""


def _check_get(path: str | None) -> None:
    if path is None:
        return
    from kvplan_cli.report.paths import check_path
    from kvplan_cli.report.verify_document import VerifyDocument

    check_path(VerifyDocument, path)
