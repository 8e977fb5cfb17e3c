"""Classes of the Transformers library on two ranks weigh what the engine built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.memory.vector_weights import answered_cases, counted

# The configs of the vectors ``text_models.jsonl.xz``; vLLM 0.33.0 built these bytes on a rank for
# ``--model-impl transformers --tensor-parallel-size 2``.
_ON_TWO_RANKS: Final = {
    "afmoe": 2_672_106_432,
    "apertus": 1_812_015_712,
    "arcee": 646_231_424,
    "cohere2": 11_962_368_704,
    "cohere2_moe": 20_888_240_704,
    "cohere": 5_385_568_832,
    "cwm": 3_513_889_344,
    "deepseek_v3": 107_367_783_872,
    "ernie4_5": 162_548_288,
    "ernie4_5_moe": 2_759_768_384,
    "exaone4": 4_060_297_920,
    "exaone_moe": 3_763_940_672,
    "flex_olmo": 4_878_344_768,
    "gemma2": 1_524_332_226,
    "gemma3_text": 1_538_648_770,
    "gemma": 1_893_784_642,
    "generic-llama": 2_690_851_520,
    "generic-mixtral": 6_067_397_184,
    "glm4": 2_057_464_128,
    "glm4_moe": 8_218_027_672,
    "glm": 2_057_398_592,
    "gpt2": 96_912_448,
    "gpt_bigcode": 84_577_344,
    "gpt_neox": 2_432_139_424,
    "granite": 1_071_718_976,
    "granite_swa": 1_200_748_976,
    "granitemoe": 4_859_437_632,
    "granitemoe_swa": 4_859_438_272,
    "helium-by-itself": 566_933_056,
    "llama4_text": 28_495_309_504,
    "llama": 2_690_851_520,
    "minimax_m2": 15_907_275_328,
    "ministral3": 1_946_231_360,
    "mistral": 2_879_595_200,
    "mixtral": 17_677_886_144,
    "olmo2": 1_221_730_880,
    "olmo3": 2_840_995_008,
    "olmoe": 3_495_498_304,
    "phi3": 650_041_792,
    "phi": 411_173_056,
    "qwen2": 2_595_349_056,
    "qwen2_moe": 2_905_092_672,
    "qwen3": 5_296_569_024,
    "qwen3_moe": 7_989_730_752,
    "seed_oss": 2_999_050_816,
    "smollm3": 575_181_376,
    "solar_open-by-itself": 10_032_851_520,
    "stablelm": 574_843_024,
    "starcoder2": 534_997_568,
}


def test_what_the_library_does_not_share_out_is_whole_on_each_rank() -> None:
    first: dict[str, Mapping[str, Any]] = {}
    for case in answered_cases("text_models"):
        first.setdefault(case["name"].split("__")[0], case)
    two = {"model_impl": "transformers", "tensor_parallel_size": 2}
    found = {
        name: counted({**first[f"library-{name}"], "engine_args": two}) for name in _ON_TWO_RANKS
    }
    assert found == {name: [figure] for name, figure in _ON_TWO_RANKS.items()}
