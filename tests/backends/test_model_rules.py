"""What single model classes refuse."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.backends.capabilities import FLASH_ATTN, FLASHINFER, TRITON_ATTN
from kvplan_cli.backends.divisibility import check_heads
from kvplan_cli.backends.model_rules import check_experts, check_layer, check_model
from kvplan_cli.dtypes import DType
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import AttentionKind
from tests.backends.builders import layer, settings, sliding


def test_dory_runs_on_one_rank() -> None:
    check_model("DoryForCausalLM", settings(), HfConfig({}))
    with pytest.raises(EngineRefusalError, match="tensor_parallel_size=1 only"):
        check_model("DoryForCausalLM", settings(tensor_parallel_size=2), HfConfig({}))


def test_bert_shares_its_positions_out() -> None:
    sizes = HfConfig({"vocab_size": 192, "max_position_embeddings": 512, "type_vocab_size": 2})
    check_model("BertModel", settings(tensor_parallel_size=2), sizes)
    with pytest.raises(EngineRefusalError, match="512 is not divisible by 3"):
        check_model("BertModel", settings(tensor_parallel_size=3), sizes)


def test_flint_needs_flashinfer_and_plain_bfloat16() -> None:
    check_layer("FlintForCausalLM", layer(), FLASHINFER, settings())
    with pytest.raises(EngineRefusalError, match="requires FlashInfer"):
        check_layer("FlintForCausalLM", layer(), FLASH_ATTN, settings())
    changes: list[dict[str, Any]] = [{"dtype": DType.FLOAT16}, {"cache_dtype": "fp8"}]
    for change in changes:
        with pytest.raises(EngineRefusalError):
            check_layer("FlintForCausalLM", layer(), FLASHINFER, settings(**change))


def test_rnj_looks_back_with_triton_only() -> None:
    check_layer("Rnj1ForCausalLM", sliding(), TRITON_ATTN, settings())
    check_layer("Rnj1ForCausalLM", layer(), FLASH_ATTN, settings())
    with pytest.raises(EngineRefusalError, match="requires the Triton backend, but got FLASH"):
        check_layer("Rnj1ForCausalLM", sliding(), FLASH_ATTN, settings())


def test_ranks_do_not_outnumber_experts() -> None:
    check_experts("Qwen3MoeForCausalLM", HfConfig({"num_experts": 8}), 8)
    with pytest.raises(EngineRefusalError, match="size 8 is greater than the number of experts 4"):
        check_experts("Qwen3MoeForCausalLM", HfConfig({"num_experts": 4}), 8)


@pytest.mark.parametrize(
    ("architecture", "kind", "ranks", "words"),
    [
        ("PanguEmbeddedForCausalLM", AttentionKind.FULL, 3, "greater than TP size, but total"),
        ("PanguEmbeddedForCausalLM", AttentionKind.FULL, 6, "less than TP size, but tp_size 6"),
        ("PanguProMoEV2ForCausalLM", AttentionKind.STATIC_SINK, 8, "replication is not support"),
        ("Param2MoEForCausalLM", AttentionKind.FULL, 8, "must be divisible by tensor-parallel"),
    ],
)
def test_heads_in_a_models_own_words(
    architecture: str, kind: AttentionKind, ranks: int, words: str
) -> None:
    with pytest.raises(EngineRefusalError, match=words):
        check_heads(architecture, layer(kind=kind), ranks)
