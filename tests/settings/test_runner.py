"""Generation or pooling, and chunked prefill and prefix caching after it."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from tests.settings.builders import POOLS, llama, refused_in, resolved

GEMMA3_TEXT = ArchitectureTraits(architecture="Gemma3TextModel", runner_type=RunnerType.POOLING)
CLS = ArchitectureTraits(
    architecture="BertModel", runner_type=RunnerType.POOLING, default_seq_pooling_type="CLS"
)
ENCODER_DECODER = ArchitectureTraits(architecture="Whisper", is_encoder_decoder=True)
HYBRID = ArchitectureTraits(architecture="JambaForCausalLM", is_hybrid=True)
POOLING_MODULE = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}


def sentence_transformer(**pooling: Any) -> dict[str, Any]:
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}, POOLING_MODULE]
    return {"modules.json": modules, "1_Pooling/config.json": pooling}


def test_runner_types() -> None:
    assert resolved().runner_type is RunnerType.GENERATE
    assert resolved(runner="pooling").runner_type is RunnerType.POOLING
    assert resolved(traits=POOLS).runner_type is RunnerType.POOLING
    assert resolved(traits=POOLS, runner="pooling").runner_type is RunnerType.POOLING
    assert resolved(extra_files=sentence_transformer()).runner_type is RunnerType.POOLING
    assert resolved(extra_files={"modules.json": []}).runner_type is RunnerType.GENERATE


def test_runners_that_are_refused() -> None:
    assert refused_in(traits=POOLS, runner="generate") == (
        "Embedding models do not support `--runner generate`. Use `--runner pooling` or "
        "`--runner auto` for embedding models."
    )
    assert refused_in(runner="x") == (
        "runner: Input should be 'auto', 'generate', 'pooling' or 'draft'"
    )
    with pytest.raises(InputError, match="--speculative-config"):
        resolved(runner="draft")


@pytest.mark.parametrize(
    ("traits", "config", "files", "partial"),
    [
        (POOLS, {}, {}, True),
        (POOLS, {"is_causal": False}, {}, False),
        (POOLS, {}, sentence_transformer(pooling_mode_lasttoken=True), True),
        (POOLS, {}, sentence_transformer(pooling_mode_mean_tokens=True), False),
        (POOLS, {}, sentence_transformer(pooling_mode_cls_token=True), False),
        (POOLS, {}, sentence_transformer(pooling_mode="mean"), False),
        (POOLS, {}, sentence_transformer(word_embedding_dimension=1024), True),
        (CLS, {}, {}, False),
        (GEMMA3_TEXT, {}, {}, True),
        (GEMMA3_TEXT, {"use_bidirectional_attention": True}, {}, False),
        (ENCODER_DECODER, {}, {}, False),
        (HYBRID, {}, {}, True),
    ],
)
def test_whether_prompts_are_split_and_prefixes_kept(
    traits: ArchitectureTraits, config: dict[str, Any], files: dict[str, Any], partial: bool
) -> None:
    settings = resolved(llama(**config), traits=traits, extra_files=files)
    assert settings.enable_chunked_prefill is partial
    assert settings.enable_prefix_caching is partial


def test_flags_win_over_defaults() -> None:
    off = resolved(enable_chunked_prefill=False, enable_prefix_caching=False)
    assert not off.enable_chunked_prefill
    assert not off.enable_prefix_caching
    on = resolved(traits=CLS, enable_chunked_prefill=True, enable_prefix_caching=True)
    assert on.enable_chunked_prefill
    assert on.enable_prefix_caching


def test_but_an_encoders_output_is_never_split() -> None:
    settings = resolved(traits=ENCODER_DECODER, enable_chunked_prefill=True)
    assert not settings.enable_chunked_prefill
