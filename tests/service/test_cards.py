"""Unequal cards, cards of this machine, and the partition that balances stages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.gpus import Gpu
from kvplan_cli.loader import driver
from kvplan_cli.planner.results import Plan
from kvplan_cli.results import FitRequest, FitResult
from kvplan_cli.service.cards import named_cards
from kvplan_cli.service.fit import fit
from kvplan_cli.units import GIB

MODEL = "llama-3.1-70b"


def _fit(gpu: str, **flags: Any) -> FitResult:
    flags = {"max_model_len": 8192, "pipeline_parallel_size": 2, **flags}
    return fit(FitRequest(model=MODEL, gpu=gpu, flags=flags))


def _notice(result: FitResult, code: str) -> str | None:
    return next((each.message for each in result.notices if each.code == code), None)


def test_each_stage_has_its_own_card() -> None:
    result = _fit("h200,a100-80")
    totals = [budget.total_memory_bytes / GIB for budget in result.budgets]
    assert totals == pytest.approx([139.81, 79.25], abs=0.01)


def test_cards_of_different_kinds_are_told() -> None:
    assert "first, NVIDIA H200" in (_notice(_fit("h200,a100-80"), "unlike_cards") or "")
    assert _notice(_fit("h200,h100"), "unlike_cards") is None


def test_cards_must_be_one_or_one_a_stage() -> None:
    with pytest.raises(InputError, match="3 cards for 2 pipeline stages"):
        named_cards("h100,h100,h100", 2)
    with pytest.raises(InputError, match="drop --gpu-mem"):
        fit(
            FitRequest(
                model=MODEL,
                gpu="h200,h100",
                gpu_mem_bytes=80 * GIB,
                flags={"pipeline_parallel_size": 2},
            )
        )


def test_the_balancing_partition_is_planned_and_named() -> None:
    result = _fit("h200,a100-80")
    message = _notice(result, "unbalanced_stages")
    assert message is not None
    assert "Stage 1 limits all (its card has 79.25 GiB)" in message
    found = re.search(r"PARTITION=([\d,]+) holds ([\d,]+) tokens", message)
    assert found is not None
    partition, tokens = found.groups()
    assert sum(int(part) for part in partition.split(",")) == 80
    balanced = fit(
        FitRequest(
            model=MODEL,
            gpu="h200,a100-80",
            flags={"max_model_len": 8192, "pipeline_parallel_size": 2},
        )
    )
    assert isinstance(balanced.likely, Plan)
    assert int(tokens.replace(",", "")) > (balanced.likely.kv_cache_size_tokens or 0)


def test_equal_stages_need_no_word() -> None:
    assert _notice(_fit("h200"), "unbalanced_stages") is None


def _driver(monkeypatch: pytest.MonkeyPatch, *cards: tuple[Gpu, bool]) -> None:
    found = tuple(driver.DriverCard(gpu=gpu, known=known) for gpu, known in cards)
    monkeypatch.setattr(driver, "driver_cards", lambda: found)


def test_auto_takes_the_drivers_first_card(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Gpu(name="NVIDIA Known", capability=(9, 0), total_memory_bytes=80 * GIB)
    other = Gpu(name="NVIDIA Other", capability=(9, 0), total_memory_bytes=40 * GIB)
    _driver(monkeypatch, (known, True), (other, False))
    cards = named_cards("auto", 1)
    assert cards.gpus == (known,)
    assert [notice.code for notice in cards.notices] == ["gpu_found", "unlike_cards"]
    assert "CUDA reports 80.00 GiB" in cards.notices[0].message


def test_an_unknown_card_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Gpu(name="NVIDIA Other", capability=(9, 0), total_memory_bytes=40 * GIB)
    _driver(monkeypatch, (other, False))
    assert "does not know" in named_cards("AUTO", 1).notices[0].message
