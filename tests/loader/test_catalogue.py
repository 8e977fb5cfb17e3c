"""The bundled models and cards: complete, unambiguous, each with its origin."""

from __future__ import annotations

import pytest

from kvplan_cli.loader.catalogue import (
    configs_folder,
    find_gpu,
    find_model,
    gpus,
    marketing_gpu,
    model_names,
    model_of_hub_id,
    models,
    nearest_model,
)
from kvplan_cli.loader.hub import HUB_ID
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results import FitRequest
from kvplan_cli.service import fit
from kvplan_cli.units import GIB
from tests.loader.faults import problem


def test_there_are_the_models_people_serve() -> None:
    assert len(model_names()) >= 90
    assert {"deepseek-v3", "kimi-k2", "qwen3.5-27b", "glm-5"} <= set(model_names())
    assert {"llama-3.1-8b", "gpt-oss-120b", "gemma-3-27b", "qwen3-8b"} <= set(model_names())


@pytest.mark.parametrize("name", model_names())
def test_a_model_has_what_a_plan_needs(name: str) -> None:
    model = find_model(name)
    assert model is not None
    assert model.name == name == name.lower()
    assert HUB_ID.fullmatch(model.hub_id)
    assert len(model.origin) > 20
    result = fit(FitRequest(model=name, gpu="h200", flags={"tensor_parallel_size": 2}))
    assert isinstance(result.high, Plan | Refusal)
    assert "counted from the config" in result.budgets[0].lines[0].bytes_per_rank.note


def test_no_two_models_share_a_name() -> None:
    names = [name for model in models() for name in (model.name, *model.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


def test_a_hub_id_is_no_name_but_leads_to_the_entry() -> None:
    assert find_model("Qwen/Qwen3-8B") is None
    found = model_of_hub_id("qwen/qwen3-8b")
    assert found is not None
    assert found.name == "qwen3-8b"
    assert nearest_model("Llama-3.1-8B-Instrct") == "llama-3.1-8b"


def test_cards_are_unambiguous_and_less_than_their_names_say() -> None:
    names = [name for card in gpus() for name in (card.name, *card.aliases)]
    assert len(names) == len(set(names))
    for card in gpus():
        assert len(card.origin) > 20
        assert card.gpu.total_memory_bytes < card.marketing_gb * GIB
        assert card.gpu.total_memory_bytes > card.marketing_gb * GIB * 0.85


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("h100", "h100"),
        ("H100", "h100"),
        ("h100-80gb", "h100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("a100", "a100-80"),
        ("RTX 4090", "rtx-4090"),
        ("A6000", "rtx-a6000"),
        ("NVIDIA B300 SXM6 AC", "b300"),
    ],
)
def test_a_card_is_found_by_any_name(name: str, card: str) -> None:
    assert find_gpu(name).name == card


def test_the_h100_is_what_cuda_reports() -> None:
    gpu = find_gpu("h100").gpu
    assert gpu.capability == (9, 0)
    assert round(gpu.total_memory_bytes / GIB, 2) == 79.19


def test_an_unknown_card_shows_the_nearest_and_the_known() -> None:
    found = problem(find_gpu, "h101", "plan.yaml: gpu")
    assert found.where == "plan.yaml: gpu"
    assert "did you mean h100?" in (found.way_out or "")
    assert "rtx-5090" in (found.way_out or "")


@pytest.mark.parametrize("name", ["mi300x", "MI355X", "AMD Instinct MI300X", "gaudi3", "gfx942"])
def test_other_makers_cards_are_refused_with_the_way_out(name: str) -> None:
    found = problem(find_gpu, name, "--gpu")
    assert "other rules" in found.reason
    assert found.way_out is not None
    assert "--kv-mem" in found.way_out


def test_a_marketing_size_is_noticed() -> None:
    for size in (80 * 10**9, 80 * GIB):
        card = marketing_gpu(size)
        assert card is not None
        assert card.marketing_gb == 80
    assert marketing_gpu(int(79.19 * GIB)) is None


def test_the_data_stand_where_the_package_looks() -> None:
    assert (configs_folder() / "gpus" / "cards.json").is_file()
