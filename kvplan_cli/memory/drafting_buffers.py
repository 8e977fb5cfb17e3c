"""Tensors that a drafter keeps on the card for good, beside its weights and its cache.

Source: vLLM 0.33.0 ``v1/worker/gpu/spec_decode``: ``speculator.py`` and the class of each method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.runner_buffers import Kept, input_buffers
from kvplan_cli.memory.sizes import ProfileSizes
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.tensors import BYTE, FLOAT32, INT32, INT64
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.cuda_graphs import captures
from kvplan_cli.settings.drafter import EXTRACTION, Drafter
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.settings.scheduling import XPRESS
from kvplan_cli.units import cdiv

# Tokens that a program looks for n-grams in, by the length of the longest request.
_BLOCKS: Final = ((1024, 256), (256, 128), (64, 64))
_PROBABILISTIC: Final = "probabilistic"
# Classes that take the target's embeddings of images, audio and video.
_EMBEDS: Final = frozenset(
    {
        "BailingMoeV3MTPModel",
        "EagleLlama4ForCausalLM",
        "EagleMistralForCausalLM",
        "EagleMistralLarge3ForCausalLM",
        "Exaone4_5_MTP",
        "InklingMTPModel",
        "InternS2MobiusMTP",
        "MiMoV2OmniMTPModel",
        "Qwen3_5MTP",
        "Qwen3_5MoeMTP",
        "Step5MTP",
    }
)
_BACKBONE: Final = "backbone_hidden_size"
_SELECTED: Final = "selector_top_k"
_CORRECTED: Final = "lilicorr_candidate_topk"


def drafting_bytes(
    target: ProfileSizes, settings: ResolvedSettings, args: EngineArgs, kept: Kept
) -> int:
    """Bytes on a rank of the last stage; 0 without a drafter, or where none runs on the card."""
    drafter = settings.drafter
    if drafter is None:
        return 0
    if not drafter.caches:
        return _scanning(settings) if drafter.reads_text_alone else 0
    total = _common(_own(drafter), settings, args.speculative_config or {})
    if drafter.method == EXTRACTION:
        total += drafter.num_hidden_states * _states(target.hidden_size, settings)
    elif drafter.method == "draft_model":
        total += _standalone(settings)
    elif drafter.drafts_blocks:
        total += _of_blocks(target, drafter, settings, graphs=captures(args))
    else:
        total += _from_states(drafter, settings, kept)
    return total


def _from_states(drafter: Drafter, settings: ResolvedSettings, kept: Kept) -> int:
    """Of a head or of modules that read the target's states, one token after the other."""
    hidden, own_modules = _states_read(drafter), drafter.method == "mtp"
    embeds = kept.embeds_inputs and not _EMBEDS.isdisjoint(drafter.architectures)
    several = min(drafter.num_modules, drafter.num_speculative_tokens)
    if own_modules and several > 1:
        return _of_modules(hidden, settings, embeds=embeds)
    total = (1 + embeds) * _states(hidden, settings) + 2 * settings.max_num_seqs * INT64 + INT64
    return total + _chosen(kept.index_topk if own_modules else 0, settings)


def _own(drafter: Drafter) -> HfConfig:
    assert drafter.config is not None, "only n-grams have no model"
    return text_config(drafter.config)


def _states_read(drafter: Drafter) -> int:
    """Elements of a state that it reads; Gemma 4's assistant is narrower than its target."""
    config = drafter.config
    if config is not None and config.has(_BACKBONE):
        return config.positive(_BACKBONE)
    return size(_own(drafter), "hidden_size")


def _states(hidden_size: int, settings: ResolvedSettings) -> int:
    return settings.max_num_batched_tokens * hidden_size * settings.dtype.itemsize


def _scanning(settings: ResolvedSettings) -> int:
    """A mark a block of each request's tokens, and what was found."""
    length = settings.max_model_len
    block = next((held for least, held in _BLOCKS if length >= least), 16)
    marks = cdiv(length, block) + settings.num_speculative_tokens
    return settings.max_num_seqs * marks * INT64


def _common(own: HfConfig, settings: ResolvedSettings, keys: Mapping[str, Any]) -> int:
    """Of every drafter with a model: its batch, drafted tokens, and their logits if it samples."""
    requests, drafted = settings.max_num_seqs, settings.num_speculative_tokens
    total = input_buffers(settings)
    total += requests * (2 * INT64 + FLOAT32 + drafted * (INT64 + FLOAT32))
    if keys.get("draft_sample_method") == _PROBABILISTIC:
        total += requests * drafted * size(own, "vocab_size") * settings.dtype.itemsize
    return total


def _chosen(index_topk: int, settings: ResolvedSettings) -> int:
    """What a module's own indexer chooses."""
    tokens = settings.max_num_batched_tokens
    rows = 1 + min(tokens, settings.max_num_seqs * (1 + settings.num_speculative_tokens))
    return (tokens * index_topk + rows * (index_topk + 1)) * INT32 if index_topk else 0


def _context(target: ProfileSizes, own: HfConfig, settings: ResolvedSettings) -> int:
    """The target's states that a captured step reads, those of each layer that is named."""
    # Rarely needed, like the drafters' weights.
    from kvplan_cli.memory.weights.drafters.blocks import listed_layers

    rows = settings.max_num_seqs * (1 + settings.num_speculative_tokens)
    width = listed_layers(own) * target.hidden_size * settings.dtype.itemsize
    return min(rows, settings.max_num_batched_tokens) * width


def _standalone(settings: ResolvedSettings) -> int:
    requests = settings.max_num_seqs
    tokens = settings.max_num_batched_tokens + requests
    return tokens * (INT32 + INT64) + requests * INT64 + (requests + 1) * INT32 + INT64


def _of_blocks(
    target: ProfileSizes, drafter: Drafter, settings: ResolvedSettings, *, graphs: bool
) -> int:
    """States and positions of the context, and where each drafted token is sampled."""
    requests, each, own = settings.max_num_seqs, settings.num_speculative_tokens, _own(drafter)
    total = _states(_states_read(drafter), settings) + _of_candidates(own, settings)
    total += settings.max_num_batched_tokens * INT64 + requests * each * (3 * INT64 + INT32)
    if graphs:
        total += _context(target, own, settings)
    if drafter.method == "dspark":
        chosen = own.optional_integer("index_topk", minimum=0) or 0
        total += each * INT32 + settings.max_num_batched_tokens * chosen * INT32
    if drafter.method == "dspark" or not XPRESS.isdisjoint(drafter.architectures):
        total += requests * INT64
    return total


def _of_candidates(own: HfConfig, settings: ResolvedSettings) -> int:
    """Tokens among which a corrector chooses, with their scores, and the states it reads."""
    section = own.optional_section("dflash_config")
    if section is None:
        return 0
    requests, drafted = settings.max_num_seqs, settings.num_speculative_tokens
    corrected = section.optional_integer(_CORRECTED, minimum=1)
    candidates = corrected or section.optional_integer(_SELECTED, minimum=1) or 0
    total = requests * drafted * candidates * (INT64 + FLOAT32)
    if corrected:
        anchor = size(own, "hidden_size") * settings.dtype.itemsize + BYTE + INT32
        total += requests * anchor
    return total


def _of_modules(hidden_size: int, settings: ResolvedSettings, *, embeds: bool) -> int:
    """Several modules one after the other: what the last step left for the next."""
    requests, earlier = settings.max_num_seqs, settings.num_speculative_tokens - 1
    copies = 1 + embeds
    held = requests * earlier * hidden_size * settings.dtype.itemsize
    numbers = requests * (INT64 + 2 * earlier * INT64) + INT64
    return copies * (_states(hidden_size, settings) + held) + numbers
