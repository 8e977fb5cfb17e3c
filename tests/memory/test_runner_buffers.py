"""What the model runner and a drafter keep on the card, against what the engine allocated."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.drafting_buffers import drafting_bytes
from kvplan_cli.memory.runner_buffers import RankState, kept_beside, runner_bytes
from kvplan_cli.memory.sizes import profile_sizes
from kvplan_cli.memory.weights.count import rank_stages
from kvplan_cli.models.text import text_config
from kvplan_cli.resolution import resolve
from tests.conformance.model_cases import engine_args_of, gpu_of
from tests.memory.vector_weights import completed

_VECTORS: Final = Path(__file__).parent.parent / "data" / "memory" / "runner_buffers.jsonl.xz"


def _cases() -> list[dict[str, Any]]:
    with lzma.open(_VECTORS, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def _counted(case: Mapping[str, Any], args: EngineArgs, values: Mapping[str, Any]) -> list[int]:
    config = HfConfig(values)
    model = resolve(config, case["extra_files"], args, gpu_of(case))
    sizes, settings = profile_sizes(text_config(config)), model.settings
    kept = kept_beside(config, model.traits, settings, args)
    stages = rank_stages(model.shape, settings, args)
    totals = [
        runner_bytes(
            sizes,
            settings,
            RankState(
                is_first_stage=stage.is_first,
                is_last_stage=stage.is_last,
                kept=kept,
                caches=tuple(c for c in model.shape.layers if c.decoder_layer in stage.layers),
            ),
        )
        for stage in stages
    ]
    totals[-1] += drafting_bytes(sizes, settings, args, kept)
    return totals


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_buffers_equal_the_engines_to_the_byte(case: dict[str, Any]) -> None:
    assert completed(_counted, case, engine_args_of(case)) == case["runner_bytes"]
