"""Which steps are captured: as the engine resolved it under each flag."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.cuda_graphs import GraphMode, graph_mode
from tests.conformance.model_cases import engine_args_of
from tests.memory.vector_weights import answered_cases


# ``resolved.cudagraph_mode`` of vLLM 0.33.0 for a small Llama under these flags.
@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ({}, "FULL_AND_PIECEWISE"),
        ({"enforce_eager": True}, "NONE"),
        ({"optimization_level": 0}, "NONE"),
        ({"optimization_level": 1}, "PIECEWISE"),
        ({"optimization_level": 3}, "FULL_AND_PIECEWISE"),
        ({"compilation_config": {"cudagraph_mode": "NONE"}}, "NONE"),
        ({"compilation_config": {"cudagraph_mode": "full"}}, "FULL"),
        ({"compilation_config": {"cudagraph_mode": "PIECEWISE"}}, "PIECEWISE"),
        ({"compilation_config": {"mode": 0}}, "FULL_DECODE_ONLY"),
        ({"compilation_config": {"mode": "VLLM_COMPILE"}}, "FULL_AND_PIECEWISE"),
        ({"enforce_eager": True, "compilation_config": {"cudagraph_mode": "FULL"}}, "NONE"),
    ],
)
def test_flags_choose_the_mode(flags: dict[str, Any], mode: str) -> None:
    assert graph_mode(EngineArgs(**flags)) is GraphMode(mode)


@pytest.mark.parametrize("given", [{"cudagraph_mode": "most"}, {"mode": 4}, {"mode": True}])
def test_a_mode_that_is_none_is_told_with_the_legal_ones(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="legal: NONE"):
        graph_mode(EngineArgs(compilation_config=given))


@pytest.mark.parametrize("name", ["models", "wrappers_1", "wrappers_2"])
def test_the_engine_resolves_the_same(name: str) -> None:
    checked = 0
    for case in answered_cases(name):
        resolved = case["resolved"]
        mode = graph_mode(
            engine_args_of(case),
            runner=RunnerType(resolved["runner_type"]),
            is_encoder_decoder=resolved["is_encoder_decoder"],
        )
        assert mode.value == resolved["cudagraph_mode"], case["name"]
        checked += 1
    assert checked > 100
