"""Tensors that the model runner keeps on the card for good, whose shapes its code states.

Source: vLLM 0.33.0 ``v1/worker/gpu/{states,input_batch,structured_outputs}.py``, ``sample/*.py``,
``model_states/*.py``, ``mm/{encoder_runner,rope}.py`` and ``lora/punica_wrapper``. What lies in
host memory that the card reads (the requests' tokens, sampling parameters) does not count.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.sizes import ProfileSizes
from kvplan_cli.memory.weights.modalities import loads_towers
from kvplan_cli.memory.weights.tensors import BYTE, INT32, INT64
from kvplan_cli.models.shape import ArchitectureTraits, CacheLayer, MLALayer, RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import cdiv
from kvplan_cli.values import dataclass

# What a request may bring to the sampler: allowed tokens, biased tokens with their biases, tokens
# of bad words, stop tokens, tokens whose probabilities are asked for, bad words.
_LONG_LISTS: Final = 4 * 1024
_SHORT_LISTS: Final = 2 * 128 + 129
_WORD: Final = 32
_INTERMEDIATE_TENSORS: Final = 2
# Where a request's recurrent state is copied from and to.
_STATE_VECTORS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a start keeps beside its requests.

    embeds_inputs: a batch's embeddings, where other modalities than text come in.
    rotary_axes: positions of a token, 0 where one is enough. deep_levels: layers that take
    image features of their own. scans_tokens: the requests' tokens lie on the card, for n-grams.
    adapter_slots: of LoRA, 0 without. index_topk: tokens that an indexer chooses, 0 without one.
    """

    embeds_inputs: bool = False
    rotary_axes: int = 0
    deep_levels: int = 0
    scans_tokens: bool = False
    adapter_slots: int = 0
    index_topk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """A rank as its buffers see it. caches: layers of its stage that keep a cache."""

    is_first_stage: bool = True
    is_last_stage: bool = True
    kept: Kept = Kept()
    caches: tuple[CacheLayer, ...] = ()


# Sections that hold a vision tower's config, by the paths that multimodal models use.
_VISION: Final = (("vision_config",), ("thinker_config", "vision_config"))
_ROPE: Final = ("rope_parameters", "rope_scaling")


def kept_beside(
    config: HfConfig, traits: ArchitectureTraits, settings: ResolvedSettings, args: EngineArgs
) -> Kept:
    """What this start keeps. config: the whole config.json."""
    embeds = traits.is_multimodal and loads_towers(args, traits.architecture)
    text = text_config(config)
    return Kept(
        embeds_inputs=embeds,
        rotary_axes=_rotary_axes(text),
        deep_levels=_deep_levels(config) if embeds else 0,
        scans_tokens=settings.drafter is not None and settings.drafter.reads_text_alone,
        adapter_slots=args.max_loras if args.enable_lora else 0,
        index_topk=text.optional_integer("index_topk", minimum=0) or 0,
    )


def _rotary_axes(text: HfConfig) -> int:
    for key in _ROPE:
        rope = text.optional_section(key)
        if rope is not None:
            return len(rope.optional_list("mrope_section") or ())
    return 0


def _deep_levels(config: HfConfig) -> int:
    for path in _VISION:
        part: HfConfig | None = config
        for name in path:
            part = None if part is None else part.optional_section(name)
        if part is not None:
            return len(part.optional_list("deepstack_visual_indexes") or ())
    return 0


def runner_bytes(sizes: ProfileSizes, settings: ResolvedSettings, state: RankState) -> int:
    """Bytes on one rank."""
    kept = state.kept
    total = input_buffers(settings) + _requests(settings, kept) + _indexers(settings, state)
    if not state.is_first_stage:
        total += _INTERMEDIATE_TENSORS * _hidden_states(sizes, settings)
    elif kept.embeds_inputs:
        total += (1 + kept.deep_levels) * _hidden_states(sizes, settings)
    if kept.rotary_axes:
        total += kept.rotary_axes * (settings.max_num_batched_tokens + 1) * INT64
    if state.is_last_stage and settings.runner_type is not RunnerType.POOLING:
        total += _sampling(sizes, settings)
    if kept.adapter_slots:
        total += _adapter_indices(settings, kept.adapter_slots)
    return total


def input_buffers(settings: ResolvedSettings) -> int:
    """Token numbers, positions and padding marks of a batch; starts and lengths of its requests."""
    requests, tokens = settings.max_num_seqs, settings.max_num_batched_tokens
    return tokens * (INT32 + INT64 + BYTE) + (3 * requests + 1) * INT32


def _hidden_states(sizes: ProfileSizes, settings: ResolvedSettings) -> int:
    return settings.max_num_batched_tokens * sizes.hidden_size * settings.dtype.itemsize


def _requests(settings: ResolvedSettings, kept: Kept) -> int:
    drafted = settings.num_speculative_tokens
    lookahead = max(1, settings.num_prefill_lookahead_tokens)
    each = (2 + lookahead) * INT32 + (1 + drafted) * INT64
    if kept.scans_tokens:
        each += settings.max_model_len * INT32
    if settings.is_hybrid:
        each += _STATE_VECTORS * INT32
    if settings.is_encoder_decoder:
        each += INT32
    return settings.max_num_seqs * each


def _sampling(sizes: ProfileSizes, settings: ResolvedSettings) -> int:
    """Counts of the tokens put out, masks of words, and what requests ask of the sampler."""
    requests, logits = settings.max_num_seqs, 1 + settings.num_speculative_tokens
    mask = cdiv(sizes.vocab_size, _WORD) * INT32
    counts = sizes.vocab_size * INT32 + mask
    grammar = logits * (mask + INT32)
    return requests * (counts + grammar + (_LONG_LISTS + _SHORT_LISTS) * INT32)


def _indexers(settings: ResolvedSettings, state: RankState) -> int:
    """What indexers choose for a batch, and for each group of layers its places in the cache.

    Source: vLLM 0.33.0 ``attention/backends/mla/index_group.py``.
    """
    chosen = state.kept.index_topk
    if not chosen:
        return 0
    sparse = [each for each in state.caches if isinstance(each, MLALayer) and each.is_sparse]
    groups = sum(each.is_index_group_leader for each in sparse)
    if sparse:
        groups = max(1, groups)
    tokens = settings.max_num_batched_tokens
    rows = 1 + min(tokens, settings.max_num_seqs * (1 + settings.num_speculative_tokens))
    return (tokens * chosen + groups * rows * (chosen + 1)) * INT32


def _adapter_indices(settings: ResolvedSettings, slots: int) -> int:
    """Which adapter each token and each request takes."""
    requests, tokens = settings.max_num_seqs, settings.max_num_batched_tokens
    sorted_tokens = 2 * tokens + 2 * (slots + 1) + slots + 2
    return (4 * tokens + 3 * requests) * INT64 + 2 * sorted_tokens * INT32
