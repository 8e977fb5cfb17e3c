"""Tables of n-grams stand in the host's memory: built, but no part of what the card holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.count import count_weights, rank_site
from kvplan_cli.memory.weights.decoder import Stage
from kvplan_cli.memory.weights.stored import StoredModel, StoredTensor
from kvplan_cli.resolution import resolve
from tests.conformance.model_cases import engine_args_of, gpu_of
from tests.memory.builders import settings
from tests.memory.vector_weights import answered_cases, completed

_CASES = {"formats": "engram-v41__tp2", "text_models": "qwen4exp-ple__tp2"}


def _case(file: str) -> Mapping[str, Any]:
    return next(case for case in answered_cases(file) if case["name"] == _CASES[file])


def _card_and_host(
    case: Mapping[str, Any], args: EngineArgs, values: Mapping[str, Any]
) -> list[int]:
    """Bytes that are told for the card, and those that are told to stand in the host's memory."""
    config, gpu = HfConfig(values), gpu_of(case)
    model = resolve(config, case["extra_files"], args, gpu)
    (estimate,) = count_weights(
        config, model.shape, model.settings, args, case["extra_files"], gpu.capability
    )
    told = re.search(r"; ([\d,]+) bytes more stand in the host's memory", estimate.note)
    assert told is not None
    return [estimate.low, int(told.group(1).replace(",", ""))]


@pytest.mark.parametrize(
    ("file", "host"),
    [("formats", (4062 + 4244) * (64 + 2)), ("text_models", 321_280 // 2 * 128 * 2)],
)
def test_the_card_holds_all_but_the_tables(file: str, host: int) -> None:
    case = _case(file)
    card, told = completed(_card_and_host, case, engine_args_of(case))
    assert told == host
    assert [card + host] == case["weights_bytes"]


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight", False),
        ("layers.1.engram.embed.weight", False),
        ("layers.1.engram.wkv.weight", True),
        ("model.ngram_embeddings.embedders.0.weight", True),
    ],
)
def test_a_checkpoints_tables_are_not_loaded_to_the_card(name: str, held: bool) -> None:
    tensor = StoredTensor(name=name, dtype="BF16", shape=(8, 4), size_bytes=64)
    model = StoredModel(tensors=(tensor,), num_kv_heads=1, num_experts=0)
    stage = Stage(layers=range(4), is_first=True, is_last=True)
    (weights,) = model.stages(rank_site(settings(), EngineArgs()), (stage,))
    assert (weights.size_bytes == 64) is held
