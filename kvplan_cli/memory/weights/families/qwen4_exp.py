"""Qwen4 Exp: residual streams mixed through a low rank, and indexers beside attention.

Source: vLLM 0.33.0 ``vllm/models/qwen4_exp/nvidia/{model,qsa,hyperconnection,ple_layer}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import cache_factors
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.delta import GatedDelta
from kvplan_cli.memory.weights.families.states import QWEN3_5, QWEN_ATTENTION, by_cache
from kvplan_cli.memory.weights.ignored import inner_path
from kvplan_cli.memory.weights.layers import LayerFacts, never, nothing, size, together
from kvplan_cli.memory.weights.mixed import Mixed
from kvplan_cli.memory.weights.ngrams import head_rows
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.quantization import Fp8
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import BYTE, FLOAT32, INT32, INT64, Tensors
from kvplan_cli.models.recurrent import ShortConvState
from kvplan_cli.models.shape import StateLayer
from kvplan_cli.units import round_up

# Mixers are kept in bfloat16, and their merged rows are padded to a multiple.
_BFLOAT16: Final = 2
_ROW_MULTIPLE: Final = 16


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
    """An embedding of n-grams, what it is hashed by, and what mixes it into the streams."""
    config, site = facts.config, facts.site.at("ple")
    places = sorted(set(config.optional_list("ple_layer_ids") or ()))
    if facts.index + 1 not in places:
        return ()
    width, grams = config.positive("ple_embed_dim"), config.positive("ngram_size")
    heads = (grams - 1) * config.positive("heads_per_ngram")
    hidden = facts.hidden_size
    wide = config.positive("hc_count") * hidden
    rows = head_rows(config, "ngram_vocab_size_base", places.index(facts.index + 1) * heads, heads)
    padded = round_up(sum(rows), config.positive("make_ngram_vocab_size_divisible_by"))
    return (
        *site.vector("layer_multipliers", grams, INT64),
        *site.vector("ngram_heads", 2 * heads, INT64),
        *_table(site.at("ple_embedding"), config, site.share(padded), width // heads),
        *site.replicated("kv_proj", width, (wide, hidden)),
        *site.vector("norm", wide) * 3,
        *site.vector("conv1d", wide * config.positive("ple_conv_kernel_size")),
    )


def _table(site: Site, config: HfConfig, rows: int, width: int) -> Tensors:
    """The heads' tables, one behind the other, in a format of their own or the checkpoint's."""
    kind = config.optional_text("ple_embedding_dtype") or _checkpoint_format(site)
    if kind == "nvfp4":
        return (
            *site.host_table(_TABLE, rows * (width // 2), BYTE),
            *site.host_table("weight_scale", rows * (width // _NVFP4_BLOCK), BYTE),
            *site.vector("weight_scale_2", 1, FLOAT32),
        )
    if kind == "float8_e4m3fn":
        return (
            *site.host_table(_TABLE, rows * width, BYTE),
            *site.vector("weight_scale", 1, FLOAT32),
        )
    if kind is not None:
        raise config.wrong("ple_embedding_dtype", "nvfp4 or float8_e4m3fn")
    return site.host_table(_TABLE, rows * width)


def _checkpoint_format(site: Site) -> str | None:
    """How the checkpoint's own quantization has the tables; only some formats reach them."""
    scheme, path = site.scheme, site.at(_TABLE).prefix
    if isinstance(scheme, Mixed) and not scheme.ignored.matches(path):
        return _FORMATS.get(scheme.formats.linear(path) or "")
    if not isinstance(scheme, Fp8) or scheme.ignored.matches_experts(path):
        return None
    names = (inner_path(name) for name in scheme.ignored.names)
    kept = any(name.startswith(f"{inner_path(path)}.shard_") for name in names)
    return None if kept else "float8_e4m3fn"


_TABLE: Final = "ngram_embedding"
_NVFP4_BLOCK: Final = 16
_FORMATS: Final = {"FP8": "float8_e4m3fn", "NVFP4": "nvfp4"}
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
