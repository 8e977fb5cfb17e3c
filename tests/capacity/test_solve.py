"""A solved value holds when it is planned with; one step further does not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvplan_cli.cli.solve import read_call
from kvplan_cli.errors import EngineRefusalError, ExitCode, InputError
from kvplan_cli.planner.results import Plan
from kvplan_cli.recall import call
from kvplan_cli.results import FitRequest
from kvplan_cli.results_solve import (
    End,
    Needs,
    Quantity,
    Requests,
    Shortage,
    SolveRequest,
    SolveResult,
)
from kvplan_cli.service.fit import answer_for
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.needs import trial
from kvplan_cli.service.quantities import ENUMERATED, SEARCHED
from kvplan_cli.service.solve import solve
from kvplan_cli.units import GIB, smallest_fitting


def asked(words: str) -> SolveResult:
    return solve(read_call(words.split()).request)


def with_value(request: SolveRequest, value: str) -> FitRequest:
    """The request that a user makes with the value: typed behind its flag."""
    fit = request.fit
    name = request.quantity.value.replace("-", "_")
    if request.quantity is Quantity.KV_MEM:
        return replace(fit, kv_mem_bytes=(int(value),), gpu_mem_bytes=None)
    if request.quantity is Quantity.GPU_MEM:
        return replace(fit, gpu_mem_bytes=int(value))
    return replace(fit, flags={**fit.flags, name: value})


def holds(request: SolveRequest, value: str) -> bool:
    """Planned anew, as typed, without anything remembered."""
    inputs = read_inputs(with_value(request, value))
    return trial(inputs, request.needs, request.on, call).holds


NEEDS = st.one_of(
    st.builds(Needs),
    st.builds(Needs, concurrency=st.sampled_from([Fraction(n) for n in ("1.5", "2", "8", "40")])),
    st.builds(
        Needs,
        requests=st.lists(
            st.builds(
                Requests, tokens=st.sampled_from([100, 4096, 20000]), count=st.integers(1, 60)
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    ),
)
FLAGS = st.fixed_dictionaries(
    {"max_model_len": st.sampled_from([4096, 20000, 40960])},
    optional={
        "tensor_parallel_size": st.sampled_from([1, 2]),
        "pipeline_parallel_size": st.sampled_from([1, 2]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "max_num_seqs": st.sampled_from([16, 512]),
        "max_num_batched_tokens": st.sampled_from([2048, 16384]),
        "enforce_eager": st.booleans(),
    },
)
MODELS = ("llama-3.1-8b", "gpt-oss-20b", "llama-3.2-3b", "qwen3-8b")


def question(quantity: Quantity, model: str, flags: dict[str, Any], needs: Needs) -> SolveRequest:
    flags = {k: v for k, v in flags.items() if k != quantity.value.replace("-", "_")}
    by_card = quantity in (Quantity.GPU_MEMORY_UTILIZATION, Quantity.GPU_MEM)
    fit = FitRequest(model=model, flags=flags, gpu="h100")
    if not by_card and quantity is not Quantity.KV_MEM:
        fit = replace(fit, gpu=None, kv_mem_bytes=(6 * GIB,))
    return SolveRequest(fit=fit, quantity=quantity, needs=needs)


@settings(max_examples=100)
@given(st.sampled_from(list(SEARCHED)), st.sampled_from(MODELS), FLAGS, NEEDS)
def test_the_value_holds_and_one_step_further_does_not(
    quantity: Quantity, model: str, flags: dict[str, Any], needs: Needs
) -> None:
    request = question(quantity, model, flags, needs)
    try:
        result = solve(request)
    except EngineRefusalError:
        assume(False)
    if result.value is None:
        assert result.exit_code is ExitCode.DOES_NOT_FIT
        assert result.binding.at is not None
        assert not holds(request, result.binding.at)
        return
    assert holds(request, result.value)
    assert result.step is not None
    step = Decimal(result.step)
    beyond = Decimal(result.value) + (step if SEARCHED[quantity].most else -step)
    if result.binding.shortage is Shortage.LIMIT:
        assert result.binding.at is None
    else:
        assert result.binding.at == f"{beyond:f}"
        assert not holds(request, f"{beyond:f}")


@given(st.sampled_from(MODELS), FLAGS, st.integers(1, 40))
def test_concurrency_is_a_need_that_its_own_plan_meets(
    model: str, flags: dict[str, Any], gib: int
) -> None:
    fit = FitRequest(model=model, flags=flags, kv_mem_bytes=(gib * GIB,))
    result = solve(SolveRequest(fit=fit, quantity=Quantity.CONCURRENCY, needs=Needs()))
    assume(result.value is not None)
    inputs, value = read_inputs(fit), Fraction(result.value or 0)
    assert trial(inputs, Needs(concurrency=value), End.LOW, call).holds
    assert not trial(inputs, Needs(concurrency=value + Fraction(1, 100)), End.LOW, call).holds


@given(st.sampled_from(MODELS), st.integers(1, 40))
def test_longest_context_is_what_the_engine_makes_of_auto(model: str, gib: int) -> None:
    fit = FitRequest(model=model, kv_mem_bytes=(gib * GIB,))
    result = solve(SolveRequest(fit=fit, quantity=Quantity.MAX_MODEL_LEN, needs=Needs()))
    automatic = answer_for(read_inputs(fit).with_args(max_model_len=-1)).likely
    fitted = automatic.max_model_len if isinstance(automatic, Plan) else None
    assert result.value == (None if fitted is None else str(fitted))


@given(st.integers(1, 300), st.integers(0, 320))
def test_smallest_fitting(upper: int, least: int) -> None:
    expected = max(1, least) if least <= upper else 0
    assert smallest_fitting(lambda n: n >= least, upper) == expected


def test_every_quantity_is_solved_one_way() -> None:
    assert not set(SEARCHED) & set(ENUMERATED)
    assert {*SEARCHED, *ENUMERATED, Quantity.CONCURRENCY} == set(Quantity)


@pytest.mark.parametrize(
    ("words", "value", "shortage"),
    [
        # 8 requests of 8,192 blocks of 2 MiB, nothing less.
        ("--for kv-mem --concurrency 8", str(8 * 8192 * 2097152), Shortage.CONCURRENCY),
        # The engine's own check keeps the null block apart.
        ("--for kv-mem", str(8193 * 2097152), Shortage.KV_CACHE_MEMORY),
        ("--for kv-mem --requests 131072:8", str((8 * 8192 + 1) * 2097152), Shortage.REQUESTS),
        ("--for max-model-len --kv-mem 40GiB --concurrency 8", "40960", Shortage.CONCURRENCY),
        ("--for max-model-len --kv-mem 40GiB", "131072", Shortage.LIMIT),
        (
            "--for max-model-len --kv-mem 12GiB --step 1024",
            str(95 * 1024),
            Shortage.KV_CACHE_MEMORY,
        ),
        ("--for concurrency --kv-mem 40GiB", "2.50", Shortage.CONCURRENCY),
        ("--for concurrency --kv-mem 40GiB --step 1", "2", Shortage.CONCURRENCY),
        ("--for concurrency --kv-mem 40GiB --max-num-seqs 2", "2.00", Shortage.MAX_NUM_SEQS),
        ("--for max-num-seqs --kv-mem 40GiB", "8192", Shortage.LIMIT),
        ("--for max-num-seqs --kv-mem 40GiB --requests 100:9000", None, Shortage.MAX_NUM_SEQS),
        ("--for kv-cache-dtype --kv-mem 20GiB --concurrency 2", "fp8", Shortage.CONCURRENCY),
        ("--for tensor-parallel-size --kv-mem 20GiB --concurrency 5", "4", Shortage.CONCURRENCY),
        ("--for tensor-parallel-size --kv-mem 40GiB", "1", Shortage.LIMIT),
        ("--for max-model-len --kv-mem 1MiB", None, Shortage.KV_CACHE_MEMORY),
    ],
)
def test_llama(words: str, value: str | None, shortage: Shortage) -> None:
    result = asked(f"llama-3.1-8b {words}")
    assert (result.value, result.binding.shortage) == (value, shortage)


def test_low_end_decides_unless_told_otherwise() -> None:
    words = "llama-3.1-8b --for gpu-memory-utilization --gpu h100 --concurrency 2"
    low, likely = asked(words), asked(f"{words} --on likely")
    assert low.estimated
    assert Decimal(low.value or 0) > Decimal(likely.value or 2)


def test_finer_steps_come_closer() -> None:
    words = "llama-3.1-8b --for gpu-memory-utilization --gpu h100 --concurrency 2"
    coarse, fine = asked(f"{words} --step 0.05"), asked(f"{words} --step 0.0001")
    assert coarse.value == "0.70"
    assert Decimal("0.65") < Decimal(fine.value or 0) <= Decimal("0.70")


def test_a_window_costs_a_request_once_and_full_attention_every_token() -> None:
    result = asked("gemma-3-27b --for kv-mem --requests 131072:1")
    window, full = result.costs[0], result.costs[-1]
    assert (window.blocks, float(window.bytes_per_token)) == (1089, 0.0)
    assert window.fixed_bytes == window.bytes_all_workers
    assert (full.blocks, full.fixed_bytes, float(full.bytes_per_token)) == (8192, 0, 81920.0)


def test_memory_need_not_be_known_where_it_is_sought() -> None:
    with pytest.raises(InputError, match="nothing says how much there is"):
        asked("llama-3.1-8b --for max-model-len")
    assert asked("llama-3.1-8b --for gpu-mem --max-model-len 4096").value is not None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--for gpu-memory-utilization --kv-mem 4GiB", "drop --kv-mem"),
        ("--for gpu-mem --kv-cache-memory-bytes 4GiB", "drop --kv-cache-memory-bytes"),
        ("--for kv-mem --num-gpu-blocks-override 100", "leave it out"),
        ("--for concurrency --kv-mem 4GiB --max-model-len auto", "auto takes whatever fits"),
    ],
)
def test_questions_without_a_meaning(words: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        asked(f"llama-3.1-8b {words}")


def test_flags_that_the_engine_refuses_at_every_value_are_its_refusal() -> None:
    with pytest.raises(EngineRefusalError, match="divisible"):
        asked("llama-3.1-8b --for max-model-len --kv-mem 4GiB -tp 3")


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("m", "--for"),
        ("m --for kv-memory", "--for"),
        ("m --for kv-mem --kv-mem 4GiB", "--for kv-mem and --kv-mem"),
        ("m --for concurrency --concurrency 4", "--for concurrency and --concurrency"),
        ("m --for kv-mem --concurrency 0", "--concurrency"),
        ("m --for kv-mem --concurrency nan", "--concurrency"),
        ("m --for kv-mem --requests 4096:", "--requests"),
        ("m --for kv-mem --requests 0:5", "--requests"),
        ("m --for kv-mem --requests 4096:100,,", "--requests"),
        ("m --for kv-mem --on middle", "--on"),
        ("m --for gpu-memory-utilization --step 0", "--step"),
        ("m --for max-model-len --step 0", "--step"),
        ("m --for kv-mem --step 0", "--step"),
        ("m --for kv-cache-dtype --step 1", "--step"),
    ],
)
def test_wrong_calls(words: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        read_call(words.split())
    assert where in {problem.where for problem in caught.value.problems}
    assert all(problem.way_out for problem in caught.value.problems)


def test_all_faults_at_once() -> None:
    words = "--for x --on y --requests z --concurrency w --kv-mem 3"
    with pytest.raises(InputError) as caught:
        read_call(words.split())
    found = {problem.where for problem in caught.value.problems}
    assert found == {"MODEL", "--for", "--on", "--requests", "--concurrency", "--kv-mem"}
