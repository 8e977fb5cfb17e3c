"""Counted weights against what the engine built."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError, MissingFieldError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.memory.weights.count import count_weights, rank_tensors
from kvplan_cli.memory.weights.registry import described_architectures
from kvplan_cli.memory.weights.tensors import total_bytes
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import RunnerType
from tests.memory.builders import LLAMA, engine_weights, quantized_weights, settings


def _bytes(case: dict[str, Any], **flags: Any) -> list[int]:
    config = HfConfig(case["config"])
    try:
        shape = model_shape(config)
    except MissingFieldError:
        config = HfConfig(with_class_defaults(case["config"])[0])
        shape = model_shape(config)
    tensors = rank_tensors(
        config,
        shape,
        settings(
            architecture=case.get("architecture", case["config"]["architectures"][0]),
            tensor_parallel_size=case["tensor_parallel_size"],
            pipeline_parallel_size=case["pipeline_parallel_size"],
            enable_expert_parallel=case["enable_expert_parallel"],
            quantization=case["quantization"],
            runner_type=RunnerType(case["runner_type"]),
            dtype=DType.from_name(case.get("dtype", "bfloat16")),
        ),
        EngineArgs(**flags),
        case.get("extra_files", {}),
    )
    return [total_bytes(stage) for stage in tensors]


def test_table_is_broad() -> None:
    cases = engine_weights()
    assert len(cases) >= 200
    assert len({case["architecture"] for case in cases}) >= 90


@pytest.mark.parametrize("case", engine_weights(), ids=lambda case: case["name"])
def test_weights_equal_the_engines_to_the_byte(case: dict[str, Any]) -> None:
    assert _bytes(case) == case["weights_bytes"]


@pytest.mark.parametrize("case", quantized_weights(), ids=lambda case: case["name"])
def test_quantized_weights_are_near_the_engines(case: dict[str, Any]) -> None:
    # Scalars and unlisted routers are not followed in every format.
    for counted, built in zip(_bytes(case), case["weights_bytes"], strict=True):
        assert abs(counted - built) <= 0.001 * built


def _llama(**changes: Any) -> HfConfig:
    return HfConfig({**LLAMA, **changes})


def _count(config: HfConfig, **changes: Any) -> int:
    shape = model_shape(config)
    return count_weights(config, shape, settings(**changes), EngineArgs())[0].low


def test_undescribed_architecture_is_refused_with_a_way_out() -> None:
    config = _llama()
    with pytest.raises(UnplannableError, match="--weights"):
        count_weights(
            config, model_shape(config), settings(architecture="NobodyKnows"), EngineArgs()
        )


def test_unknown_quantization_is_refused() -> None:
    with pytest.raises(UnplannableError, match="'zip' is not described"):
        _count(_llama(), quantization="zip")


def test_missing_size_is_asked_for() -> None:
    config = HfConfig({key: value for key, value in LLAMA.items() if key != "vocab_size"})
    shape = model_shape(_llama())
    with pytest.raises(MissingFieldError, match="vocab_size"):
        count_weights(config, shape, settings(), EngineArgs())


def test_indivisible_size_is_the_engines_refusal() -> None:
    with pytest.raises(EngineRefusalError, match="4098 is not divisible by 4"):
        _count(_llama(intermediate_size=4098), tensor_parallel_size=4)


def test_tied_head_is_one_copy() -> None:
    untied, tied = _count(_llama()), _count(_llama(tie_word_embeddings=True))
    assert untied - tied == 32000 * 1024 * 2


def test_vocabulary_is_padded_to_64() -> None:
    assert _count(_llama(vocab_size=32001)) - _count(_llama()) == 2 * 64 * 1024 * 2


def test_likely_is_never_below_the_tensors() -> None:
    config = _llama()
    (estimate,) = count_weights(config, model_shape(config), settings(), EngineArgs())
    assert estimate.low <= estimate.likely <= estimate.high


def test_towers_are_left_out_of_a_language_model_only() -> None:
    case = next(
        each
        for each in engine_weights()
        if each["architecture"] == "Gemma3ForConditionalGeneration"
    )
    with_tower = _bytes(case)[0]
    assert _bytes(case, language_model_only=True)[0] < with_tower
    assert _bytes(case, limit_mm_per_prompt={"image": 0})[0] < with_tower
    assert _bytes(case, limit_mm_per_prompt={"image": 1})[0] == with_tower


def test_pooling_model_has_no_head() -> None:
    config = _llama()
    pooled = _count(config, runner_type=RunnerType.POOLING)
    assert _count(config) - pooled == 32000 * 1024 * 2


def test_every_described_architecture_is_named_once() -> None:
    names = described_architectures()
    assert len(names) == len(set(names)) >= 100
