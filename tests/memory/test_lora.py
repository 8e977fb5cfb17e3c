"""The room for LoRA adapters against what the engine set aside."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.adapted import ADAPTED, INHERITING
from kvplan_cli.memory.weights.adapters import LARGEST_VOCABULARY
from kvplan_cli.memory.weights.count import rank_tensors
from kvplan_cli.memory.weights.lora import lora_left_out, lora_tensors
from kvplan_cli.memory.weights.tensors import total_bytes
from kvplan_cli.models.registry import model_shape
from kvplan_cli.resolution import resolve
from tests.conformance.model_cases import engine_args_of, gpu_of
from tests.memory.builders import LLAMA, settings
from tests.memory.vector_weights import completed

_VECTORS: Final = Path(__file__).parent.parent / "data" / "memory" / "lora.jsonl.xz"
_ADAPTERS: Final = EngineArgs(enable_lora=True)


def _cases() -> list[dict[str, Any]]:
    with lzma.open(_VECTORS, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def _counted(case: Mapping[str, Any], args: EngineArgs, values: Mapping[str, Any]) -> list[int]:
    config = HfConfig(values)
    model = resolve(config, case["extra_files"], args, gpu_of(case))
    # What the weights ask of the config is there before adapters are counted.
    rank_tensors(config, model.shape, model.settings, args, case["extra_files"])
    return [total_bytes(s) for s in lora_tensors(config, model.shape, model.settings, args)]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_room_equals_the_engines_to_the_byte(case: dict[str, Any]) -> None:
    assert completed(_counted, case, engine_args_of(case)) == case["lora_bytes"]


def test_every_class_that_is_counted_was_held_against_the_engine() -> None:
    assert {case["resolved"]["architecture"] for case in _cases()} == {*ADAPTED, *INHERITING}


def _room(args: EngineArgs = _ADAPTERS, vocabulary: int = 32_000, **changes: Any) -> int:
    config = HfConfig({**LLAMA, "vocab_size": vocabulary})
    return total_bytes(lora_tensors(config, model_shape(config), settings(**changes), args)[0])


def test_there_is_no_room_without_adapters() -> None:
    assert _room(EngineArgs(max_loras=8)) == 0


def test_room_grows_with_slots_and_rank() -> None:
    assert _room(replace(_ADAPTERS, max_loras=3, max_lora_rank=64)) == 12 * _room()


def test_room_is_in_the_adapters_dtype() -> None:
    wide = _room(dtype=DType.FLOAT32)
    assert wide == 2 * _room()
    assert _room(replace(_ADAPTERS, lora_dtype="bfloat16"), dtype=DType.FLOAT32) == _room()


@pytest.mark.parametrize(
    ("changes", "config", "reason"),
    [
        ({"architecture": "WhisperForConditionalGeneration"}, {}, "of Whisper.* are not described"),
        ({"quantization": "mxfp4"}, {"num_experts": 8}, "experts in mxfp4"),
    ],
)
def test_what_is_not_known_is_not_counted(
    changes: dict[str, Any], config: dict[str, Any], reason: str
) -> None:
    asked, resolved = HfConfig({**LLAMA, **config}), settings(**changes)
    assert re.search(reason, str(lora_left_out(asked, resolved, _ADAPTERS)))
    assert lora_left_out(asked, resolved, EngineArgs()) is None
    with pytest.raises(UnplannableError, match=reason):
        lora_tensors(asked, model_shape(HfConfig(LLAMA)), resolved, _ADAPTERS)


def test_whole_experts_are_not_fully_sharded() -> None:
    case = next(case for case in _cases() if case["engine_args"].get("enable_expert_parallel"))
    sharded = replace(engine_args_of(case), fully_sharded_loras=True)
    with pytest.raises(EngineRefusalError, match="Fused MoE LoRA does not support"):
        completed(_counted, case, sharded)


def test_a_vocabulary_beyond_the_engines_is_refused() -> None:
    assert _room(vocabulary=LARGEST_VOCABULARY) > 0
    with pytest.raises(EngineRefusalError, match="vocab size must be <= 258048"):
        _room(vocabulary=LARGEST_VOCABULARY + 1)


def test_the_host_has_no_fewer_slots_than_the_card() -> None:
    case = next(case for case in _cases() if case["engine_args"].get("max_loras") == 4)
    enough = replace(engine_args_of(case), max_cpu_loras=4)
    assert completed(_counted, case, enough) == case["lora_bytes"]
    # The engine takes a zero for a number that was not given.
    assert completed(_counted, case, replace(enough, max_cpu_loras=0)) == case["lora_bytes"]
    with pytest.raises(EngineRefusalError, match=r"max_cpu_loras \(3\) must be >= max_loras \(4"):
        completed(_counted, case, replace(enough, max_cpu_loras=3))
