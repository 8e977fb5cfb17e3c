"""Blocks of FP8 weights that a tensor parallel size cuts."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.backends.fp8_blocks import (
    Fp8Blocks,
    check_attention_blocks,
    check_feed_forward_blocks,
)
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import ModelShape
from tests.backends.builders import gpu, layer, settings

BLOCKS = Fp8Blocks(rows=128, columns=128)
EXPERTS = {"num_experts": 8, "moe_intermediate_size": 768, "hidden_size": 1024}


def feed_forward(tensor_parallel_size: int, card: str = "H100", **text: Any) -> None:
    given = settings(tensor_parallel_size=tensor_parallel_size, quantization="fp8")
    check_feed_forward_blocks(BLOCKS, given, gpu(card), HfConfig(text))


@pytest.mark.parametrize(
    ("quantization", "method", "expected"),
    [
        ({"weight_block_size": [128, 64]}, "fp8", Fp8Blocks(rows=128, columns=64)),
        ({"weight_block_size": [128, 64]}, "modelopt", None),
        ({}, "fp8", None),
    ],
)
def test_blocks_of_a_checkpoint(
    quantization: dict[str, Any], method: str, expected: Fp8Blocks | None
) -> None:
    assert Fp8Blocks.of(settings(quantization=method), quantization) == expected


def test_what_ranks_sum_over_is_not_cut() -> None:
    one = ModelShape(architecture="Qwen3ForCausalLM", num_hidden_layers=1, layers=(layer(),))
    check_attention_blocks(BLOCKS, one, 8)
    with pytest.raises(EngineRefusalError, match="input_size_per_partition = 64 is not"):
        check_attention_blocks(BLOCKS, one, 16)
    spared = Fp8Blocks(rows=128, columns=128, left_out=("model.layers.0.self_attn.o_proj",))
    check_attention_blocks(spared, one, 16)


def test_dense_weights_are_not_cut() -> None:
    feed_forward(2, intermediate_size=25600)
    with pytest.raises(EngineRefusalError, match="= 1600 is not divisible"):
        feed_forward(16, intermediate_size=25600)


def test_experts_are_cut_finer_where_triton_runs_fp8() -> None:
    feed_forward(2, "A100", **EXPERTS)
    feed_forward(4, "H100", **EXPERTS)
    with pytest.raises(EngineRefusalError, match="No FP8 MoE backend supports"):
        feed_forward(4, "A100", **EXPERTS)


def test_experts_without_a_finer_block_are_refused() -> None:
    with pytest.raises(EngineRefusalError, match="output_size of gate's and up's weight = 40"):
        feed_forward(16, "H100", **{**EXPERTS, "moe_intermediate_size": 640})
