"""DFlash drafters with a head that corrects the block: XPress' refiner, LiLiCorr's lattice.

Source: vLLM 0.33.0 ``model_executor/models/{qwen3_xpress,lilicorr}.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.drafters.blocks import convolved, frame
from kvplan_cli.memory.weights.drafters.heads import with_ends
from kvplan_cli.memory.weights.drafters.own import DraftWeights, Keeps
from kvplan_cli.memory.weights.drafters.place import DraftPlace
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors

# What the refiner takes where the config is silent.
_RANK: Final = 256
_REFINER_INNER: Final = 512
_STEPS: Final = 15
# Numbers by which the lattice describes a candidate.
_FEATURES: Final = 5


def xpress(place: DraftPlace) -> DraftWeights:
    """A refiner over low-rank tables of the whole vocabulary, whole on every rank."""
    refiner = (
        *_words(place),
        *place.site.vector("down", place.hidden_size * _rank(place)) * 2,
        *xpress_copies(place),
    )
    return with_ends(place, frame(place) + refiner)


def xpress_copies(place: DraftPlace) -> Tensors:
    """What the refiner's kernels read, of which they get a copy turned their way."""
    text, rank, site = place.text, _rank(place), place.site
    inner = _or(text, "xpress_mlp_hidden", _REFINER_INNER)
    stated = text.optional_integer("xpress_block_size", minimum=1)
    block = _or(text, "num_speculative_steps", _STEPS) + 1 if stated is None else stated
    return (
        *_words(place),
        *site.vector("in_proj", 3 * rank * rank),
        *site.vector("mix_L", rank * block * block),
        *site.vector("mlp", rank * inner) * 3,
    )


def _words(place: DraftPlace) -> Tensors:
    return place.site.vector("vocabulary", size(place.text, "vocab_size") * _rank(place))


def _rank(place: DraftPlace) -> int:
    return _or(place.text, "xpress_rank", _RANK)


def _or(text: HfConfig, key: str, absent: int) -> int:
    value = text.optional_integer(key, minimum=1)
    return absent if value is None else value


def lilicorr(place: DraftPlace) -> DraftWeights:
    """A small transformer over the lattice of candidates."""
    section = place.text.section("dflash_config")
    layer = convolved(place) if section.optional_integer("conv_kernel_size") else None
    tensors = frame(place) if layer is None else frame(place, layer)
    made = with_ends(place, tensors + _lattice(place, section))
    own = place.text.optional_boolean("has_own_lm_head") is True
    return replace(made, keeps_head=Keeps.ALWAYS) if own else made


def _lattice(place: DraftPlace, section: HfConfig) -> Tensors:
    site, outer = place.site, place.hidden_size
    hidden = section.optional_integer("lilicorr_hidden_size", minimum=1) or outer
    heads, factors = section.positive("lilicorr_num_heads"), section.positive("lilicorr_factor_dim")
    block = section.optional_integer("block_size", minimum=1) or place.text.positive("block_size")
    slots = (block - 1 + section.positive("lilicorr_candidate_topk")) * hidden
    projections = 2 if hidden == outer else 3
    return (
        *site.vector("slots", slots + heads * (2 * block - 1) + heads),
        *_whole(site, "proj", outer, hidden) * projections,
        *site.vector("feature_norm", _FEATURES) * 2,
        *_mlp(site, _FEATURES, hidden, hidden),
        *_layer(site, section, hidden) * section.positive("lilicorr_num_layers"),
        *site.vector("norm", hidden) * 2,
        *_whole(site, "factor_input_proj", 3 * hidden, hidden),
        *_whole(site, "head", hidden, factors) * 3,
    )


def _layer(site: Site, section: HfConfig, hidden: int) -> Tensors:
    ratio = section.optional_number("lilicorr_mlp_ratio")
    inner = int(hidden * (1.0 if ratio is None else ratio))
    return (
        *site.vector("norm", hidden) * 2,
        *site.plain("in_proj", hidden, 3 * hidden, bias=True),
        *_whole(site, "out_proj", hidden, hidden),
        *_mlp(site, hidden, inner, hidden),
    )


def _whole(site: Site, name: str, inputs: int, outputs: int) -> Tensors:
    return site.replicated(name, inputs, outputs, bias=True)


def _mlp(site: Site, inputs: int, inner: int, outputs: int) -> Tensors:
    up = site.column("up_proj", inputs, inner, bias=True)
    return up + site.row("down_proj", inner, outputs, bias=True)
