"""The last sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.report.answer import answer
from kvplan_cli.report.build import fit_document
from kvplan_cli.results import FitResult, Verdict
from tests.report import builders

SENTENCES = {
    "dense": "Fits: 2.50 requests of 131,072 tokens at a time (327,680 tokens, 20,480 blocks).",
    "refused": "Does not fit: one request of 131,072 tokens needs 16.00 GiB, 12.41 GiB are "
    "available; the longest context that fits is 101,632 tokens (--max-model-len 101632).",
    "estimate": "Depends: with the likely 8.90 GiB it fits (1.11 requests of 65,536 tokens at a "
    "time), with the low 7.45 GiB it does not fit; with --max-model-len 60928: 60,928 tokens fit "
    "over the whole range. What settles it: one start-up log (--from-log); least certain: CUDA "
    "graphs, 0.05 to 1.76 GiB.",
    "no_memory": "Does not fit: no memory is left for the KV cache (4.58 GiB short); with "
    "--tensor-parallel-size 2: half the weights on a rank fit.",
}


@pytest.mark.parametrize("case", SENTENCES)
def test_sentence(case: str) -> None:
    assert answer(fit_document(builders.CASES[case]())) == SENTENCES[case]


def test_auto_fit_names_the_longest_context() -> None:
    result = builders.dense()
    settings = builders.settings(original_max_model_len=-1)
    sentence = answer(fit_document(replace(result, settings=settings)))
    assert sentence.startswith("Fits: the longest context is 131,072 tokens; 2.50 requests")


def test_a_model_without_a_cache() -> None:
    plan = builders.dense().likely
    assert isinstance(plan, Plan)
    empty = replace(
        plan, max_concurrency=None, kv_cache_size_tokens=None, kv_cache_size_tokens_by_blocks=None
    )
    result = replace(builders.dense(), likely=empty, low=empty, high=empty)
    assert answer(fit_document(result)) == "Fits: this model keeps no KV cache."


def test_sizes_that_two_decimals_do_not_tell_apart_are_bytes() -> None:
    refusal = builders.refused().likely
    assert isinstance(refusal, Refusal)
    close = replace(refusal, needed_bytes=1 << 34, available_bytes=(1 << 34) - 1)
    result = replace(builders.refused(), likely=close, low=close, high=close, way_out=None)
    assert answer(fit_document(result)) == (
        "Does not fit: one request of 131,072 tokens needs 17,179,869,184 bytes, "
        "17,179,869,183 bytes are available."
    )


def test_a_fit_over_a_range_tells_the_range() -> None:
    sentence = answer(fit_document(_ranged()))
    assert "; 1.06 to 1.25 over the range of the memory estimate" in sentence


def _ranged() -> FitResult:
    result = builders.estimate()
    assert isinstance(result.high, Plan)
    low = replace(result.high, max_concurrency=1.06)
    return replace(result, low=low, verdict=Verdict.FITS, way_out=None)


def test_depends_upwards() -> None:
    result = builders.estimate()
    turned = replace(result, likely=result.low, decided_on="likely", way_out=None)
    assert answer(fit_document(turned)) == (
        "Depends: with the likely 8.90 GiB it does not fit, with the high 9.98 GiB it fits "
        "(1.25 requests of 65,536 tokens at a time). What settles it: one start-up log "
        "(--from-log); least certain: CUDA graphs, 0.05 to 1.76 GiB."
    )
