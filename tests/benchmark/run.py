"""How long kvplan takes, as ratios between two things timed in turn in one run.

    python tests/benchmark/run.py [--engine-python PATH] [--runs N]

1. The whole process of ``kvplan fit --json`` on a local config against importing the libraries of
   its command line (typer, rich, yaml), by processor time, and its peak memory.
2. A sweep of ten thousand points of a 62-layer hybrid: its processor time, and against the same
   number of single answers.
3. With an interpreter that has the engine: kvplan's planner against the engine's own, on the
   same specs and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kvplan_cli.cli.sweep import read_call
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import Plan
from kvplan_cli.results_sweep import SweepResult
from kvplan_cli.service.fit import answer_for
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.sweep import sweep
from kvplan_cli.specs import KVCacheSpec, MambaCacheMode
from tests.benchmark.models import SETTINGS, Layers, benchmark_models
from tests.conformance.plan_cases import layers_from

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = "import typer, rich, yaml"
CONFIG = ROOT / "configs" / "models" / "llama-3.1-8b.json"
MOST_TIMES_THE_IMPORT = 2.0
MOST_MIB = 40.0
LEAST_TIMES_FASTER = 5.0
SWEEP = (
    "gemma-3-27b --gpu h100 --vary tp=1,2,4,8 --vary max-model-len=8k..128k+3k "
    "--vary gpu-memory-utilization=0.80..0.95+0.01 --vary kv-cache-dtype=auto,fp8 "
    "--vary max-num-seqs=256,1024"
)
MOST_SWEEP_SECONDS = 20.0
SINGLE_ANSWERS = 100
LEAST_TIMES_SINGLE = 5.0


def main(arguments: list[str]) -> int:
    """Print every ratio; 1 when one misses its mark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--engine-python", type=Path, help="an interpreter that has the engine")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args(arguments)
    met = start_up(options.runs)
    met &= sweeps()
    if options.engine_python is None:
        print("planner against the engine's: not run (--engine-python PATH)")
    else:
        met &= planners(options.engine_python)
    return 0 if met else 1


def start_up(runs: int) -> bool:
    """The process of ``fit --json`` against importing its libraries."""
    config = json.loads(CONFIG.read_text(encoding="utf-8"))["config"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "config.json"
        local.write_text(json.dumps(config), encoding="utf-8")
        words = ["-m", "kvplan_cli", "fit", str(local), "--kv-mem", "40GiB", "--json"]
        fit, importing = [sys.executable, *words], [sys.executable, "-c", LIBRARIES]
        timed(fit, environment)  # writes the bytecode that an installed wheel brings
        pairs = [(timed(fit, environment), timed(importing, environment)) for _ in range(runs)]
    ratio = statistics.median(a[0] / b[0] for a, b in pairs)
    peak = max(a[1] for a, _ in pairs)
    print(
        f"fit --json against importing typer, rich, yaml: {ratio:.2f}x "
        f"(at most {MOST_TIMES_THE_IMPORT:g}x), "
        f"{statistics.median(a[0] for a, _ in pairs) * 1000:.0f} ms of processor time; "
        f"peak {peak:.1f} MiB (under {MOST_MIB:g})"
    )
    return ratio <= MOST_TIMES_THE_IMPORT and peak < MOST_MIB


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of processor time and MiB of peak memory of one process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, _mib(usage)


def _mib(usage: resource.struct_rusage) -> float:
    # Linux counts kilobytes, macOS bytes.
    return usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def sweeps() -> bool:
    """Ten thousand points in one process, against single answers."""
    call = read_call(SWEEP.split())
    wall, start = time.perf_counter(), time.process_time()
    result = sweep(call.request)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    singly = _single_answers(result) * len(result.rows)
    print(
        f"sweep of {len(result.rows):,} points of {result.model}: {seconds:.1f} s of processor "
        f"time (under {MOST_SWEEP_SECONDS:g}), {wall:.1f} s on the clock; "
        f"{singly / seconds:.0f}x as fast as single answers (at least {LEAST_TIMES_SINGLE:g}x)"
    )
    return seconds < MOST_SWEEP_SECONDS and singly / seconds >= LEAST_TIMES_SINGLE


def _single_answers(result: SweepResult) -> float:
    """Seconds of processor time of one answer, over points from all of the sweep."""
    inputs = read_inputs(read_call(SWEEP.split()).request.fit)
    names = [axis.name for axis in result.axes]
    rows = result.rows[:: len(result.rows) // SINGLE_ANSWERS]
    start = time.process_time()
    for row in rows:
        answer_for(inputs.with_args(**dict(zip(names, row.values, strict=True))))
    return (time.process_time() - start) / len(rows)


def planners(engine_python: Path) -> bool:
    """kvplan's planner against the engine's, in turn on each model."""
    met = True
    for name, layers in benchmark_models().items():
        for auto_fit in (False, True):
            specs = layers_from(layers)
            ours, num_blocks = best_plan(specs, auto_fit)
            theirs = ask_engine(engine_python, layers, auto_fit)
            again, _ = best_plan(specs, auto_fit)
            if theirs["num_blocks"] != num_blocks:
                raise RuntimeError(f"{name}: {num_blocks} blocks, the engine has {theirs}")
            ours = min(ours, again)
            faster = theirs["seconds_per_plan"] / ours
            met &= faster >= LEAST_TIMES_FASTER
            mode = "auto-fit" if auto_fit else "fixed length"
            print(
                f"{name}, {mode}: {faster:.0f}x as fast as the engine's planner "
                f"(at least {LEAST_TIMES_FASTER:g}x), {1 / ours:,.0f} plans a second"
            )
    return met


def best_plan(specs: dict[str, KVCacheSpec], auto_fit: bool) -> tuple[float, int]:
    """The best seconds of a plan over one second, and its blocks."""
    states = any(type(spec).__name__ == "MambaSpec" for spec in specs.values())
    settings = PlannerSettings(
        max_model_len=SETTINGS["max_model_len"],
        max_num_batched_tokens=SETTINGS["max_num_batched_tokens"],
        max_concurrent_batches=SETTINGS["max_concurrent_batches"],
        auto_fit=auto_fit,
        mamba_cache_mode=MambaCacheMode.ALIGN if states else MambaCacheMode.NONE,
    )
    memory = [SETTINGS["available_bytes"]]
    outcome = plan([specs], memory, settings)
    if not isinstance(outcome, Plan):
        raise RuntimeError(outcome.message)
    best, end = float("inf"), time.perf_counter() + 1
    while time.perf_counter() < end:
        start = time.perf_counter()
        plan([specs], memory, settings)
        best = min(best, time.perf_counter() - start)
    return best, outcome.num_blocks


def ask_engine(engine_python: Path, layers: Layers, auto_fit: bool) -> dict[str, Any]:
    """The engine's answer: seconds of a plan, and its blocks."""
    request = {"layers": layers, "settings": SETTINGS, "auto_fit": auto_fit, "seconds": 1}
    ended = subprocess.run(
        [str(engine_python), str(Path(__file__).with_name("engine_planner.py"))],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
