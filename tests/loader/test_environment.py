"""The engine's environment variables: whose count, and what is legal."""

from __future__ import annotations

import pytest

from kvplan_cli.loader.engine_flags import engine_variables
from kvplan_cli.loader.environment import (
    ENGINE_ENVIRONMENT,
    PROCESS,
    merged,
    process_environment,
    read_environment,
)
from tests.loader.faults import problem, problems


def test_what_a_plan_feels_is_a_variable_of_the_engine() -> None:
    assert set(ENGINE_ENVIRONMENT) <= engine_variables()


def test_only_what_a_plan_feels_is_kept() -> None:
    given = read_environment({"VLLM_MLA_DISABLE": "1", "VLLM_PORT": "80", "PATH": "/x"}, "f: env")
    assert given.values == {"VLLM_MLA_DISABLE": "1"}
    assert given.origins == {"VLLM_MLA_DISABLE": "f: env"}
    assert given.unread == ()


def test_a_name_that_the_engine_does_not_read_is_told() -> None:
    given = read_environment({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, PROCESS)
    (told,) = given.unread
    assert "VLLM_ATTENTION_BACKEND" in told
    assert "0.33.0" in told


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("VLLM_KV_CACHE_LAYOUT", "nhd", "NHD"),
        ("VLLM_SSM_CONV_STATE_LAYOUT", "", "SD, DS"),
        ("VLLM_MLA_DISABLE", "true", "0 or 1"),
        ("VLLM_USE_V2_MODEL_RUNNER", "", "0 or 1"),
        ("VLLM_BATCH_INVARIANT", "on", "0 or 1"),
    ],
)
def test_wrong_values(name: str, value: str, legal: str) -> None:
    found = problem(read_environment, {name: value}, PROCESS)
    assert found.where == f"environment: {name}"
    assert legal in (found.way_out or "")


def test_all_wrong_values_at_once() -> None:
    env = {"VLLM_MLA_DISABLE": "x", "VLLM_KV_CACHE_LAYOUT": "x"}
    assert len(problems(read_environment, env, PROCESS)) == 2


def test_the_file_wins_over_the_process() -> None:
    own = read_environment({"VLLM_MLA_DISABLE": "1", "VLLM_KV_CACHE_LAYOUT": "NHD"}, PROCESS)
    both = merged(own, read_environment({"VLLM_MLA_DISABLE": "0"}, "f: env"))
    assert both.values == {"VLLM_MLA_DISABLE": "0", "VLLM_KV_CACHE_LAYOUT": "NHD"}
    assert both.origins == {"VLLM_MLA_DISABLE": "f: env", "VLLM_KV_CACHE_LAYOUT": PROCESS}


def test_the_process_gives_the_engines_variables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_MLA_DISABLE", "1")
    monkeypatch.setenv("OTHER", "1")
    assert process_environment()["VLLM_MLA_DISABLE"] == "1"
    assert "OTHER" not in process_environment()
