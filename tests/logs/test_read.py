"""Whole logs: older and newer ones, several workers, and what surrounds the lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.logs.available import available_memory
from kvplan_cli.logs.lines import LONGEST_LINE
from kvplan_cli.logs.literals import dict_items, keyword_items
from kvplan_cli.logs.printed import Figure, printed_gib
from kvplan_cli.logs.read import read_log
from kvplan_cli.logs.releases import release_of
from kvplan_cli.logs.startup import StartupLog
from kvplan_cli.units import GIB

LOGS = Path(__file__).parent.parent / "data" / "logs"
TEXTS = {path.name: path.read_bytes().decode() for path in LOGS.glob("*.log")}


def told(log: StartupLog) -> dict[tuple[str, str], str]:
    return {
        (process.process.key, figure.value): printed.text
        for process in log.processes
        for figure, printed in process.figures.items()
    }


def test_two_workers_with_colours_and_crlf() -> None:
    log = read_log(TEXTS["serve-0.10-tp2.log"])
    assert log.release is not None
    assert log.release.value == "0.10.1.1"
    names = {process.process.name for process in log.processes}
    assert {"VllmWorker rank=0", "VllmWorker rank=1", "EngineCore_0"} <= names
    assert [printed.text for printed in log.all(Figure.AVAILABLE)] == ["31.83", "32.21"]
    smallest = log.smallest(Figure.AVAILABLE)
    assert smallest is not None
    assert (smallest.text, smallest.line) == ("31.83", 11)
    # V1 prints the capacity of each worker: the smallest is the engine's.
    assert [printed.text for printed in log.all(Figure.TOKENS)] == ["1,192,160"]
    assert log.given["tensor_parallel_size"].value == 2
    assert log.resolved["dtype"].value == "torch.bfloat16"


def test_the_oldest_logs() -> None:
    log = read_log(TEXTS["serve-0.7.log"])
    assert log.given["max_num_seqs"].value == 256
    assert log.given["model"].value == "Qwen/Qwen2.5-1.5B-Instruct"
    (process,) = log.processes
    # 2.8875 and 2.89 are one figure: the finer print counts.
    assert process.figures[Figure.WEIGHTS].text == "2.8875"
    assert process.figures[Figure.GPU_BLOCKS].low == 5519


def test_settings_that_are_no_literals_are_left_out() -> None:
    log = read_log(TEXTS["refused-0.33.log"])
    assert "compilation_config" not in log.given
    assert log.given["gpu_memory_utilization"].value == 0.35
    assert {process.process.name for process in log.processes} == {"EngineCore"}


@pytest.mark.parametrize("name", TEXTS)
@given(data=st.data())
def test_a_cut_log_tells_less_and_never_otherwise(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    whole = told(read_log(text))
    end = data.draw(st.integers(0, len(text)))
    cut = told(read_log(text[:end]))
    for key, value in cut.items():
        # What is told later may be finer or smaller; a cut number is never taken for one.
        assert value == whole.get(key) or value in text.split() or f"{value}G" in text


@pytest.mark.parametrize("name", TEXTS)
def test_no_cut_number_is_taken_for_one(name: str) -> None:
    text = TEXTS[name]
    printed = {value for _, value in told(read_log(text)).items()}
    finer = {"2.89"}  # told before its finer print
    for end in range(len(text)):
        assert set(told(read_log(text[:end])).values()) <= printed | finer


@pytest.mark.parametrize("name", TEXTS)
@given(data=st.data())
def test_a_log_may_begin_anywhere(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    known = {value for _, value in told(read_log(text)).items()} | {"2.89", "32.21", "1,206,384"}
    assert set(told(read_log(text[start:])).values()) <= known | {"73.63"}


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    read_log(text)


@given(st.text(alphabet="{}[]()'\",:= abk1\\", max_size=80))
def test_any_settings_are_read(text: str) -> None:
    dict_items(text)
    keyword_items(text, ")")


def test_a_line_without_end_is_bounded() -> None:
    line = "non-default args: {" + "'a': 1, " * LONGEST_LINE
    assert read_log(line).given["a"].value == 1


def test_the_last_start_counts() -> None:
    first = TEXTS["serve-0.31.log"]
    second = first.replace("56.21 GiB", "40.01 GiB").replace("'api_key'", "'max_num_seqs': 7, 'k'")
    log = read_log(first + second)
    assert log.starts == 2
    assert log.given["max_num_seqs"].value == 7
    smallest = log.smallest(Figure.AVAILABLE)
    assert smallest is not None
    assert smallest.text == "40.01"


def test_a_start_that_tells_nothing_more_is_passed_over() -> None:
    log = read_log(TEXTS["serve-0.31.log"] + "non-default args: {'model': 'other'}\n")
    assert log.given["model"].value == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.31.0", (0, 31, 0)),
        ("v0.10.1.1", (0, 10, 1)),
        ("0.26.1rc1.dev156+g0eec856cc.d20260731", (0, 26, 1)),
        ("0.1.dev20073+g8e685d198", None),
        ("main", None),
        (None, None),
    ],
)
def test_releases(text: str | None, expected: tuple[int, int, int] | None) -> None:
    assert release_of(text) == expected


@pytest.mark.parametrize(("text", "half"), [("15.0", 0.005), ("3.51", 0.005), ("7.1217", 0.00005)])
def test_a_print_is_an_interval(text: str, half: float) -> None:
    printed = printed_gib(text, 1)
    assert printed.low == pytest.approx((float(text) - half) * GIB, abs=1)
    assert printed.high == pytest.approx((float(text) + half) * GIB, abs=1)


_LINE = (
    "Desired GPU memory utilization is (0.9, 21.28 GiB). {usage} and {graphs} GiB for CUDAGraph "
    "memory. Replace gpu_memory_utilization config with `--kv-cache-memory=16130110668` to fit "
    "into requested memory. "
)
_WEIGHT = "Actual usage is 5.79 GiB for weight, 0.17 GiB for peak activation,"
_CONSUMED = "Actual usage is 5.81 GiB for consumed memory (weights + non-torch),"


def available(text: str) -> tuple[int, int]:
    log = read_log(text)
    found = [available_memory(log, process) for process in log.processes]
    (memory,) = [each for each in found if each is not None]
    return memory.low, memory.high


def test_suggestion_reserve_and_graphs_give_exact_bytes() -> None:
    base = 16130110668 + 157286400
    low, high = available(_LINE.format(usage=_CONSUMED, graphs="0.14") + "\n")
    assert low == pytest.approx(base + 0.135 * GIB, abs=1)
    assert high == pytest.approx(base + 0.145 * GIB, abs=1)
    eager = "LLM engine (v0.31.0) with config: model='m', enforce_eager=True, dtype=auto\n"
    text = "Initializing a V1 " + eager + _LINE.format(usage=_CONSUMED, graphs="0.0") + "\n"
    assert available(text) == (base, base)


def test_older_accounting_takes_the_estimate_off_again() -> None:
    pool = "CUDA graph pool memory: 0.06 GiB (actual), 0.06 GiB (estimated), difference\n"
    line = _LINE.format(usage=_WEIGHT, graphs="0.06") + "\n"
    base = 16130110668 + 157286400
    version = "vLLM API server version {}\n"
    applied = available(version.format("0.23.0") + pool + line)
    assert applied[0] == pytest.approx(base - 0.01 * GIB, abs=2)
    ignored = available(version.format("0.19.1") + pool + line)
    assert ignored[0] == pytest.approx(base + 0.055 * GIB, abs=2)
    # Without a release nobody knows: the plain print alone counts.
    plain = "Available KV cache memory: 15.2 GiB\n"
    assert available(plain + pool + line) == available(plain)


def test_bytes_in_use_are_exact() -> None:
    line = _LINE.format(usage=_WEIGHT, graphs="0.14")
    text = f"{line}Current kv cache memory in use is 16440489164 bytes.\n"
    assert available(text) == (16440489164, 16440489164)


def test_a_line_that_disagrees_is_left_out() -> None:
    text = "Available KV cache memory: 9.0 GiB\n" + _LINE.format(usage=_CONSUMED, graphs="0.14")
    log = read_log(text + "\n")
    memory = available_memory(log, log.processes[0])
    assert memory is not None
    assert memory.disagrees == 2
    assert memory.high == printed_gib("9.0", 1).high
