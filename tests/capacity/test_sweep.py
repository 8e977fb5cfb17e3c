"""Points, rows, and what becomes of those that cannot be planned."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.cli.sweep import read_call
from kvplan_cli.errors import InputError, UnplannableError
from kvplan_cli.loader.axes import read_axes
from kvplan_cli.planner.results import Plan
from kvplan_cli.report.series import MOST_SERIES, picture
from kvplan_cli.results_sweep import Axis, Row, Selection, State, SweepResult
from kvplan_cli.service.fit import answer_for
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.select import read_condition, read_order, select
from kvplan_cli.service.sweep import sweep
from kvplan_cli.units import GIB


def swept(words: str) -> SweepResult:
    return sweep(read_call(words.split()).request)


def selected(words: str) -> Selection:
    call = read_call(words.split())
    result = sweep(call.request)
    return select(result.rows, result.axes, call.where, call.order)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("tensor-parallel-size=1,2,4", (1, 2, 4)),
        ("tp=1..4", (1, 2, 3, 4)),
        ("tp=1..8*2", (1, 2, 4, 8)),
        ("tp=4,1..3,2", (4, 1, 2, 3)),
        ("max_model_len=8k..128k*2", (8000, 16000, 32000, 64000, 128000)),
        ("max-model-len=8K..32K+8K", (8192, 16384, 24576, 32768)),
        ("max-model-len=auto,8k", (-1, 8000)),
        ("max-model-len=1000..2000*1.5", (1000, 1500)),
        ("gpu-memory-utilization=0.80..0.95+0.05", (0.8, 0.85, 0.9, 0.95)),
        ("kv-mem=10GiB..40GiB*2", (10 * GIB, 20 * GIB, 40 * GIB)),
        ("kv-cache-dtype=auto,fp8", ("auto", "fp8")),
        ("enforce-eager=true,no", (True, False)),
        ("block-size=default,32", (None, 32)),
        ("tp=default,2", (1, 2)),
        ("gpu=h100,h200", ("h100", "h200")),
    ],
)
def test_values(text: str, values: tuple[Any, ...]) -> None:
    (axis,) = read_axes([text])
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    "text",
    [
        "tp",
        "tp=",
        "=1",
        "tp=1,,2",
        "tp=x",
        "tp=0..4",
        "tp=4..1",
        "tp=1..4*1",
        "tp=1..4*x",
        "tp=1..4+0",
        "tp=1..4*nan",
        "max-model-len=auto..8k",
        "gpu-memory-utilization=0.8..0.9",
        "gpu-memory-utilization=0.8..0.9+x",
        "gpu-memory-utilization=2",
        "kv-mem=3..5",
        "kv-cache-dtype=fpp8",
        "enforce-eager=maybe",
        "hf-overrides=1",
        "tensor-paralel-size=1",
        "max-num-seqs=1..1000000",
    ],
)
def test_wrong_values(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_axes([text])
    assert caught.value.problems[0].where.startswith("--vary")


def test_too_many_points_and_axes_given_twice() -> None:
    with pytest.raises(InputError) as caught:
        read_axes(["tp=1..1000", "pp=1..1000", "dp=1..2", "tp=1"])
    assert [p.where for p in caught.value.problems] == ["--vary tensor-parallel-size", "--vary"]


def test_rows_are_the_plans_of_single_calls() -> None:
    words = "llama-4-scout --gpu h100 --on likely --vary tp=4,8 --vary max-model-len=8k,1M"
    words += " --vary kv-cache-dtype=auto,fp8"
    call = read_call(words.split())
    result = sweep(call.request)
    base = read_inputs(call.request.fit)
    for row in result.rows:
        names = [axis.name for axis in result.axes]
        flags = dict(zip(names, row.values, strict=True))
        likely = answer_for(base.with_args(**flags)).likely
        assert isinstance(likely, Plan) == (row.state is State.FITS)
        if isinstance(likely, Plan):
            assert (row.num_blocks, row.max_concurrency) == (
                likely.num_blocks,
                likely.max_concurrency,
            )
    assert len(result.rows) == result.total == 8


def test_refused_points_are_rows_with_the_reason() -> None:
    rows = swept("llama-3.1-8b --kv-mem 20GiB --vary tp=1,3").rows
    assert [row.state for row in rows] == [State.FITS, State.REFUSED]
    assert rows[1].reason is not None
    assert "divisible" in rows[1].reason
    assert rows[1].gpus == 3


def test_a_sweep_of_refusals_only_is_still_a_table() -> None:
    assert {row.state for row in swept("llama-3.1-8b --kv-mem 20GiB --vary tp=3,5").rows} == {
        State.REFUSED
    }


def test_contradictions_at_a_point_are_rows_too() -> None:
    rows = swept("llama-3.1-8b --kv-mem 20GiB,21GiB --vary pp=1,2").rows
    assert [row.state for row in rows] == [State.WRONG, State.FITS]


def test_where_nothing_can_be_planned_the_reason_is_the_ending(tmp_path: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"architectures": ["Nobody"], "model_type": "nobody"}')
    with pytest.raises(UnplannableError):
        swept(f"{config} --kv-mem 20GiB --vary tp=1,2")
    with pytest.raises(InputError, match="nothing says how much there is"):
        swept("llama-3.1-8b --vary tp=1,2")


def test_cards_are_varied_with_their_memory_and_rules() -> None:
    rows = swept("llama-3.1-8b --vary gpu=h100,h200 --vary max-model-len=auto").rows
    assert [row.values[0] for row in rows] == ["h100", "h200"]
    assert (rows[0].num_blocks or 0) < (rows[1].num_blocks or 0)


def test_an_interrupt_keeps_what_was_done() -> None:
    seen: list[int] = []

    def progress(done: int) -> None:
        seen.append(done)
        if done == 2:
            raise KeyboardInterrupt

    words = "llama-3.1-8b --kv-mem 20GiB --vary tp=1,2,4,8"
    result = sweep(read_call(words.split()).request, progress)
    assert result.interrupted
    assert (len(result.rows), result.total, seen) == (2, 4, [1, 2])


TP_AND_LENGTH = "llama-3.1-70b --kv-mem 30GiB --vary tp=1,2,4,8 --vary max-model-len=8k,32k"


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("max_concurrency>=12.3", 4),
        ("max-concurrency > 12.3", 4),
        ("gpus<=2", 4),
        ("tensor_parallel_size=4", 2),
        ("max_model_len==8k", 4),
        ("state=fits", 8),
        ("state!=fits", 0),
        ("available_bytes>=30GiB", 8),
    ],
)
def test_conditions(condition: str, rows: int) -> None:
    call = read_call(TP_AND_LENGTH.split())
    result = sweep(call.request)
    where = [read_condition(condition, result.axes)]
    assert len(select(result.rows, result.axes, where).rows) == rows


@pytest.mark.parametrize(
    "text", ["max_concurrency", ">=8", "max_conc>=8", "state>fits", "__import__('os')=1", "a>=b>=c"]
)
def test_wrong_conditions(text: str) -> None:
    axes = read_axes(["tp=1,2"])
    with pytest.raises(InputError) as caught:
        read_condition(text, axes)
    assert caught.value.problems[0].where == "--where"


def test_sorting_and_the_best_row() -> None:
    unsorted = selected(TP_AND_LENGTH)
    assert unsorted.best is not None
    assert unsorted.rows[unsorted.best].values == (8, 8000)
    ordered = selected(f"{TP_AND_LENGTH} --sort gpus,-max_concurrency")
    assert [row.values for row in ordered.rows[:3]] == [(1, 8000), (1, 32000), (2, 8000)]
    assert ordered.best == 0
    with pytest.raises(InputError, match="did you mean gpus"):
        read_order("gpu", read_axes(["tp=1"]))


def test_rows_without_a_figure_come_last_either_way() -> None:
    words = "llama-3.1-8b --kv-mem 5GiB --vary max-model-len=8k,128k,16k"
    for sign in ("", "-"):
        rows = selected(f"{words} --sort {sign}num_blocks").rows
        assert rows[-1].values == (128000,)


def test_lines_of_a_picture() -> None:
    result = swept(f"{TP_AND_LENGTH} --vary max-num-seqs=4,8")
    selection = select(result.rows, result.axes)
    drawn = picture("t", result.axes, selection, "max_concurrency")
    assert drawn.x_title == "tensor-parallel-size"
    assert drawn.lines[0].name == "max-model-len 8,000, max-num-seqs 4"
    assert len(drawn.lines) == 4
    assert all([x for x, _ in line.points] == [1, 2, 4, 8] for line in drawn.lines)


def test_lines_that_cannot_be_told_apart_are_left_out() -> None:
    axes = (
        Axis(name="a", values=tuple(range(1, 20)), is_flag=True),
        Axis(name="b", values=tuple(str(n) for n in range(20)), is_flag=True),
    )
    rows = tuple(
        Row(values=(x, y), state=State.FITS, gpus=1, max_concurrency=1.0)
        for x in axes[0].values
        for y in axes[1].values
    )
    drawn = picture("t", axes, Selection(rows=rows, best=0), "max_concurrency")
    assert (len(drawn.lines), drawn.left_out) == (MOST_SERIES, 20 - MOST_SERIES)
    with pytest.raises(InputError, match="no axis has numbers"):
        picture("t", axes[1:], Selection(rows=(), best=None), "max_concurrency")


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("m", "--vary"),
        ("m --vary tp=1 -tp 2", "--vary tensor-parallel-size"),
        ("m --vary tp=1 --format xml", "--format"),
        ("m --vary tp=1 --format csv --json", "--json and --format"),
        ("m --vary tp=1 --limit x", "--limit"),
        ("m --vary tp=1 --plot --json", "--plot"),
        ("m --vary tp=1 --plot-y x", "--plot-y"),
        ("m --vary tp=1 --where x", "--where"),
        ("m --vary tp=1 --sort x", "--sort"),
        ("m --vary tp=1 --on x", "--on"),
    ],
)
def test_wrong_calls(words: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        read_call(words.split())
    assert [problem.where for problem in caught.value.problems] == [where]
