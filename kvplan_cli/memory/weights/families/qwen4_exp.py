"""Qwen4 Exp: residual streams mixed through a low rank, and indexers beside attention.

Source: vLLM 0.33.0 ``vllm/models/qwen4_exp/nvidia/{model,qsa,hyperconnection,ple_layer}.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count, islice
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_factors
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.delta import GatedDelta
from kvplan_cli.memory.weights.families.states import QWEN3_5, QWEN_ATTENTION, by_cache
from kvplan_cli.memory.weights.layers import LayerFacts, never, nothing, size, together
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import INT32, INT64, Tensors
from kvplan_cli.models.recurrent import ShortConvState
from kvplan_cli.models.shape import StateLayer
from kvplan_cli.units import round_up

# Mixers are kept in bfloat16, and their merged rows are padded to a multiple.
_BFLOAT16: Final = 2
_ROW_MULTIPLE: Final = 16
# Beyond any table that a card could hold, where primes are still found at once.
_LARGEST_TABLE: Final = 2**36


def stream_mixer(site: Site, config: HfConfig, *, injects: bool) -> Tensors:
    """What mixes the streams. injects: it weighs a block's output for each of them, too."""
    streams, rank = config.positive("hc_count"), config.positive("hc_lowrank")
    wide = streams * size(config, "hidden_size")
    rows = round_up(rank + streams, _ROW_MULTIPLE) if injects else rank
    return (
        *site.vector("hc_norm", wide, _BFLOAT16),
        *site.vector("input_mix_weight_down", rows * wide, _BFLOAT16),
        *site.vector("input_mix_weight_up", rank * wide, _BFLOAT16),
    )


def _mixers(facts: LayerFacts) -> Tensors:
    return stream_mixer(facts.site, facts.config, injects=True) * 2


def _last_mixer(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return stream_mixer(site, config, injects=False) if stage.is_last else ()


# The layer that reads what an indexer chose has no scales of a checkpoint.
_INDEXED: Final = by_cache(GatedDelta(), replace(QWEN_ATTENTION, scales=cache_factors))


def _block(facts: LayerFacts) -> Tensors:
    """The delta mixer or attention, whatever window an embedding keeps beside it."""
    caches = tuple(
        cache
        for cache in facts.caches
        if not (isinstance(cache, StateLayer) and isinstance(cache.state, ShortConvState))
    )
    mixer = _INDEXED if facts.config.has("indexer_n_heads") else QWEN3_5.attention
    return mixer(replace(facts, caches=caches))


def _indexer(facts: LayerFacts) -> Tensors:
    """Index queries and keys, and the buffer of what they choose for the tokens of a step."""
    config, site = facts.config, facts.site.at("self_attn")
    if not facts.attentions or not config.has("indexer_n_heads"):
        return ()
    heads = config.positive("indexer_n_heads") + config.positive("indexer_kv_heads")
    width = config.positive("indexer_head_dim")
    chosen = config.positive("indexer_budget") + config.positive("indexer_compress_ratio")
    tokens = 0 if site.settings is None else site.settings.max_num_batched_tokens
    return (
        *site.replicated("qkv_proj", facts.hidden_size, heads * width),
        *site.vector("qk_layernorm", width) * 2,
        *site.vector("topk_indices_buffer", tokens * chosen, INT32),
    )


def _embedding(facts: LayerFacts) -> Tensors:
    """An embedding of n-grams, whose heads have tables of a prime number of rows."""
    config, site = facts.config, facts.site.at("ple")
    places = sorted(set(config.optional_list("ple_layer_ids") or ()))
    if facts.index + 1 not in places:
        return ()
    if config.raw("ple_embedding_dtype") is not None:
        raise unknown("n-gram embeddings in a dtype of their own", config.origin)
    width, grams = config.positive("ple_embed_dim"), config.positive("ngram_size")
    heads = (grams - 1) * config.positive("heads_per_ngram")
    hidden = facts.hidden_size
    wide = config.positive("hc_count") * hidden
    rows = _table_rows(config, places.index(facts.index + 1) * heads, heads)
    return (
        *site.vector("layer_multipliers", grams, INT64),
        *site.vector("ngram_heads", 2 * heads, INT64),
        *site.vector("ngram_embedding", site.share(rows) * (width // heads)),
        *site.replicated("kv_proj", width, (wide, hidden)),
        *site.vector("norm", wide) * 3,
        *site.vector("conv1d", wide * config.positive("ple_conv_kernel_size")),
    )


def _table_rows(config: HfConfig, before: int, heads: int) -> int:
    """Rows of so many heads' tables, behind those of earlier layers."""
    base = config.positive("ngram_vocab_size_base")
    if base > _LARGEST_TABLE:
        raise config.wrong("ngram_vocab_size_base", f"at most {_LARGEST_TABLE}")
    primes = islice(_primes(base), before, before + heads)
    return round_up(sum(primes), config.positive("make_ngram_vocab_size_divisible_by"))


def _primes(start: int) -> Iterator[int]:
    """The primes from ``start`` on."""
    return (value for value in count(max(start, 2)) if _is_prime(value))


def _is_prime(value: int) -> bool:
    return all(value % divisor for divisor in range(2, int(value**0.5) + 1))


QWEN4_EXP: Final = replace(
    QWEN3_5,
    attention=_block,
    everywhere=True,
    norms=nothing,
    rope=RopeTables(positions_factor=1),
    beside=together(_mixers, _indexer, _embedding),
    final_norm=Norm.NONE,
    tied=never,
    extras=_last_mixer,
)
QWEN4_EXPS: Final[Mapping[str, Decoder]] = {"Qwen4ExpForCausalLM": QWEN4_EXP}
