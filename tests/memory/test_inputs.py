"""Places that a model keeps for the inputs of a step, beside its parameters."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.memory.weights.count import loaded_tensors, rank_tensors
from kvplan_cli.resolution import resolve
from tests.conformance.model_cases import gpu_of
from tests.memory.vector_weights import answered_cases

# Elements for a token, as the engine's own tensor of this model has them: (tokens, 10, 256).
_GEMMA_3N = 10 * 256


def _case(name: str) -> Any:
    return next(case for case in answered_cases("encoders") if case["name"] == name)


def _kept(case: Any, tokens: int) -> int:
    gpu: Gpu = gpu_of(case)
    config = HfConfig(with_class_defaults(case["config"])[0])
    args = EngineArgs(max_num_batched_tokens=tokens)
    model = resolve(config, {}, args, gpu)
    given = (config, model.shape, model.settings, args)
    built, loaded = rank_tensors(*given), loaded_tensors(*given)
    names = [tensor.name for tensor in chain(*built)]
    assert "per_layer_embeddings" not in names
    kept = [t for t in chain(*loaded) if t.name == "per_layer_embeddings"]
    return sum(tensor.nbytes for tensor in kept)


@pytest.mark.parametrize("tokens", [3000, 8192])
def test_gemma_3n_keeps_a_steps_embeddings_of_each_layer(tokens: int) -> None:
    case = _case("sound-gemma3n-small")
    assert _kept(case, tokens) == tokens * _GEMMA_3N * 2
