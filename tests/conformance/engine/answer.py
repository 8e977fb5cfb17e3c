"""Answers a file of cases: ``python -m tests.conformance.engine.answer CARD CASES ANSWERS``.

CARD is a case's ``gpu`` as JSON. CASES and ANSWERS are JSON lines: {"kind", "case"} in,
{"answer"} or {"unanswered": why} out, in the same order.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.conformance.engine import machine
from tests.conformance.engine.card import Card

SECONDS_PER_CASE = 280
PROGRESS_EVERY = 20


def main(card: str, source: str, target: str) -> None:
    """Answer every case; each model in a process of its own."""
    given = json.loads(card)
    major, minor = given["capability"]
    with tempfile.TemporaryDirectory(prefix="kvplan_engine_") as scratch:
        # Each case's folder stands in it, and goes with it.
        tempfile.tempdir = scratch
        machine.pose(Card(given["name"], (major, minor), given["total_memory"]), scratch)
        with open(source, encoding="utf-8") as file:
            asked = [json.loads(line) for line in file]
        answer = _answerers(asked)
        start = time.monotonic()
        with open(target, "w", encoding="utf-8") as out:
            for number, request in enumerate(asked, 1):
                out.write(json.dumps(answer[request["kind"]](request["case"])) + "\n")
                out.flush()
                if number % PROGRESS_EVERY == 0 or number == len(asked):
                    seconds = time.monotonic() - start
                    print(f"  {number} of {len(asked)}, {seconds:.0f} s", file=sys.stderr)


def _answerers(asked: Sequence[Mapping[str, Any]]) -> Mapping[str, Callable[[Any], Any]]:
    """How to answer each kind; imports the engine, with what these cases need."""
    from tests.conformance.engine import log_lines, planner_cases
    from tests.conformance.engine.configs import without_folders
    from tests.conformance.engine.forking import forked

    log_lines.take_over()
    answerers = {
        "plan": _guarded(planner_cases.plan_answer),
        "spec_level": _guarded(planner_cases.spec_level_answer),
        "hisparse": _guarded(planner_cases.hisparse_answer),
        "drafters": _guarded(planner_cases.drafter_answer),
    }
    models = [request["case"] for request in asked if request["kind"] in ("models", "runner")]
    if models:
        from tests.conformance.engine import construction, model_cases, processors, stand_ins

        construction.use_construct_only()
        _preload(models)
        stand_ins.use_tokenizer()
        processors.use_processor()
        stand_ins.use_audio_processor()
        stand_ins.use_timm()
        stand_ins.use_sparse_kernels()
        stand_ins.use_host_tables()

        def model_answer(case: Any) -> Any:
            kind, *result = forked(_timed, model_cases.answer, case)
            made = {"answer": result[0]} if kind == "ok" else {"unanswered": result[0]}
            return json.loads(without_folders(json.dumps(made)))

        answerers["models"] = model_answer
        answerers["runner"] = _guarded(_runner_answer)
    return answerers


def _runner_answer(case: Any) -> Any:
    from tests.conformance.engine import runner_cases

    return runner_cases.answer(case)


def _guarded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def guarded(case: Any) -> Any:
        try:
            return {"answer": function(case)}
        except Exception as error:
            return {"unanswered": f"{type(error).__name__}: {error}"}

    return guarded


def _timed(function: Callable[[Any], Any], case: Any) -> Any:
    from tests.conformance.engine import stand_ins

    signal.alarm(SECONDS_PER_CASE)
    os.environ.update(case.get("env") or {})
    stand_ins.register_remote_config(case["config"])
    return function(case)


def _preload(cases: Sequence[Mapping[str, Any]]) -> None:
    """Import once what the cases' own processes would import each."""
    from vllm.model_executor.layers import quantization
    from vllm.model_executor.models.registry import ModelRegistry

    named = {name for case in cases for name in case["config"].get("architectures") or ()}
    entries = [entry for name, entry in ModelRegistry.models.items() if name in named]
    modules = {entry.module_name for entry in entries if hasattr(entry, "module_name")}
    backends = ("flash_attn", "flashinfer", "triton_attn", "flex_attention")
    for module in (*sorted(modules), *(f"vllm.v1.attention.backends.{b}" for b in backends)):
        # A module that this release cannot import says so again in its case.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    for method in quantization.QUANTIZATION_METHODS:
        with contextlib.suppress(Exception):
            quantization.get_quantization_config(method)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main(*sys.argv[1:])
