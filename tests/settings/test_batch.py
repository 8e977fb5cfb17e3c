"""Tokens and sequences a step: by card, by usage, by model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.engine_args import EngineArgs, UsageContext
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.models.shape import ArchitectureTraits, MultimodalItem
from kvplan_cli.settings.batch import batch_limits
from kvplan_cli.settings.mm_items import largest_whole_item
from tests.settings.builders import A100, B200, GB10, L4, llama, refused_in, resolved

GEMMA4 = ArchitectureTraits(
    architecture="Gemma4ForConditionalGeneration",
    is_multimodal=True,
    is_mm_prefix_lm=True,
    modalities=("image", "video"),
    mm_items=(
        MultimodalItem(modality="image", tokens=280),
        MultimodalItem(modality="video", tokens=78, frames=32),
    ),
)


@pytest.mark.parametrize(
    ("gpu", "served", "offline", "seqs"),
    [
        (H100_80GB, 8192, 16384, 1024),
        (B200, 16384, 16384, 1024),
        (A100, 2048, 8192, 256),
        (L4, 2048, 8192, 256),
        (GB10, 2048, 8192, 256),
    ],
)
def test_defaults_by_card(gpu: Gpu, served: int, offline: int, seqs: int) -> None:
    settings = resolved(gpu=gpu)
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (served, seqs)
    settings = resolved(gpu=gpu, usage_context=UsageContext.LLM_CLASS)
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (offline, seqs)
    assert settings.max_num_encoder_input_tokens == offline


@pytest.mark.parametrize(
    ("flags", "tokens", "seqs"),
    [
        ({"max_num_batched_tokens": 100}, 100, 100),
        ({"max_num_seqs": 2}, 8192, 2),
        ({"max_num_seqs": 2000}, 8192, 2000),
        ({"max_model_len": 1}, 1024, 1024),
        ({"max_model_len": 3, "max_num_seqs": 4}, 12, 4),
        ({"max_model_len": 50, "max_num_batched_tokens": 100}, 100, 100),
        ({"enable_chunked_prefill": False}, 131072, 1024),
        ({"enable_chunked_prefill": False, "max_model_len": 4096}, 8192, 1024),
    ],
)
def test_caps(flags: dict[str, Any], tokens: int, seqs: int) -> None:
    settings = resolved(**flags)
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (tokens, seqs)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"max_num_batched_tokens": 100, "max_num_seqs": 128},
            "max_num_batched_tokens (100) must be greater than or equal to max_num_seqs (128).",
        ),
        (
            {"max_num_seqs": 10000},
            "max_num_batched_tokens (8192) must be greater than or equal to max_num_seqs (10000).",
        ),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 4096},
            "max_num_batched_tokens (4096) is smaller than max_model_len (131072). This "
            "effectively limits the maximum sequence length to max_num_batched_tokens and makes "
            "vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease "
            "max_model_len.",
        ),
        (
            {"max_num_seqs": 0},
            "max_num_batched_tokens: Input should be greater than or equal to 1",
        ),
        (
            {"max_num_seqs": 0, "max_num_batched_tokens": 1},
            "max_num_seqs: Input should be greater than or equal to 1",
        ),
    ],
)
def test_contradictions(flags: dict[str, Any], message: str) -> None:
    assert refused_in(**flags) == message


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ({}, 2496),
        ({"limit_mm_per_prompt": {"video": 0}}, 2496),
        ({"limit_mm_per_prompt": {"video": {"count": 0}}}, 2496),
        ({"limit_mm_per_prompt": {"video": {"count": 1, "num_frames": 28}}}, 2184),
        ({"limit_mm_per_prompt": {"video": {"count": 2, "num_frames": 64}}}, 2496),
        ({"limit_mm_per_prompt": {"image": 0, "video": 0}}, 2048),
        ({"limit_mm_per_prompt": {"image": {"count": 0}, "video": {"count": 0}}}, 2048),
        ({"language_model_only": True}, 2048),
        ({"max_num_batched_tokens": 512}, 512),
        ({"usage_context": UsageContext.LLM_CLASS}, 8192),
    ],
)
def test_an_item_that_may_not_be_split_fits_a_step(flags: dict[str, Any], tokens: int) -> None:
    assert resolved(traits=GEMMA4, gpu=A100, **flags).max_num_batched_tokens == tokens


@pytest.mark.parametrize(
    ("flags", "largest"),
    [
        ({}, ("video", 2496)),
        ({"limit_mm_per_prompt": {"video": {"num_frames": 2}}}, ("image", 280)),
        ({"limit_mm_per_prompt": {"video": 0}}, ("image", 280)),
        ({"limit_mm_per_prompt": {"image": {"count": 0}, "video": 0}}, None),
        ({"language_model_only": True}, None),
    ],
)
def test_the_largest_item_is_one_that_is_served(
    flags: dict[str, Any], largest: tuple[str, int] | None
) -> None:
    found = largest_whole_item(GEMMA4, EngineArgs(**flags))
    assert largest == (None if found is None else (found[0].modality, found[1]))


def test_items_that_may_be_split_bind_no_step() -> None:
    assert largest_whole_item(replace(GEMMA4, is_mm_prefix_lm=False), EngineArgs()) is None
    encoder = replace(GEMMA4, is_mm_prefix_lm=False, is_encoder_decoder=True)
    assert largest_whole_item(encoder, EngineArgs()) is not None


LENGTHS = st.integers(1, 10**6)


@given(length=LENGTHS, seqs=st.none() | st.integers(1, 1024), chunked=st.booleans())
def test_default_steps_hold_every_sequence(length: int, seqs: int | None, chunked: bool) -> None:
    limits = batch_limits(
        EngineArgs(max_num_seqs=seqs),
        H100_80GB,
        max_model_len=length,
        enable_chunked_prefill=chunked,
    )
    assert limits.max_num_seqs <= limits.max_num_batched_tokens
    assert limits.max_num_batched_tokens <= (seqs or 1024) * length
    assert chunked or limits.max_num_batched_tokens >= length
    assert seqs in (None, limits.max_num_seqs)


def test_a_short_model_needs_no_whole_step() -> None:
    config = llama(max_position_embeddings=4)
    assert resolved(config, max_num_seqs=8).max_num_batched_tokens == 32


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        ({}, (16384, 2048)),
        ({"max_num_batched_tokens": 4096}, (4096, 2048)),
        ({"max_num_seqs": 64}, (16384, 64)),
        ({"usage_context": UsageContext.LLM_CLASS}, (32768, 2048)),
    ],
)
def test_throughput_doubles_what_is_not_given(
    flags: dict[str, Any], limits: tuple[int, int]
) -> None:
    settings = resolved(performance_mode="throughput", **flags)
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == limits


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ({}, 256),
        ({"all2all_backend": "nixl_ep"}, 256),
        ({"all2all_backend": "deepep_high_throughput"}, 8192),
        ({"data_parallel_size": 1}, 8192),
        ({"enable_expert_parallel": False}, 8192),
        ({"performance_mode": "throughput"}, 512),
        ({"max_num_batched_tokens": 4096}, 4096),
    ],
)
def test_batches_of_experts_have_a_size_of_their_own(flags: dict[str, Any], tokens: int) -> None:
    several: dict[str, Any] = {
        "all2all_backend": "deepep_low_latency",
        "data_parallel_size": 2,
        "enable_expert_parallel": True,
    }
    limits = batch_limits(
        EngineArgs(**{**several, **flags}),
        H100_80GB,
        max_model_len=4096,
        enable_chunked_prefill=True,
    )
    assert limits.max_num_batched_tokens == tokens
