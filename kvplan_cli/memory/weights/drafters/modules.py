"""Modules of a checkpoint that predict further tokens, by the engine's class.

Each repeats a decoder layer behind what joins a token with the hidden state before it.
Source: vLLM 0.33.0 ``model_executor/models/*_mtp.py`` and ``vllm/models/*/nvidia/mtp.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.drafters.own import DraftWeights, Keeps
from kvplan_cli.memory.weights.drafters.place import DraftPlace, block_path, block_tensors
from kvplan_cli.memory.weights.families import dots3, step5
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEK
from kvplan_cli.memory.weights.families.latent_others import hyper_connections, sinks_and_gate
from kvplan_cli.memory.weights.families.llama_like import LLAMA
from kvplan_cli.memory.weights.families.mobius import MOBIUS
from kvplan_cli.memory.weights.families.qwen4_exp import stream_mixer
from kvplan_cli.memory.weights.families.states import QWEN3_5
from kvplan_cli.memory.weights.feed_forward import GATED
from kvplan_cli.memory.weights.layers import nothing as no_part
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.tensors import INT64, Tensors
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.values import dataclass

Part = Callable[[DraftPlace], Tensors]


def joined_plain(place: DraftPlace) -> Tensors:
    """From token and hidden state to one vector: a matrix that is never quantized."""
    return place.site.plain("eh_proj", 2 * place.hidden_size, place.hidden_size)


def joined_whole(place: DraftPlace) -> Tensors:
    """The same under the checkpoint's quantization, whole on every rank."""
    return place.site.replicated("eh_proj", 2 * place.hidden_size, place.hidden_size)


def _joined_nameless(place: DraftPlace) -> Tensors:
    """The same, without the name of the module that it stands in."""
    return joined_whole(replace(place, site=replace(place.site, prefix="")))


def joined_shared(place: DraftPlace) -> Tensors:
    """The same with its rows shared out, of all modules together."""
    return place.site.at("mtp").column("fc", 2 * place.hidden_size, place.hidden_size)


def nothing(place: DraftPlace) -> Tensors:
    return ()


def _as_it_is(text: HfConfig) -> HfConfig:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """How an architecture frames the decoder layers that it repeats. A row of the table.

    joins: stands in each module. norms: of each module, beside its layer's own. once: what all
    modules share. block: the repeated layer, made of the target's. reads: the config that the
    layer reads. numbered_behind: the layer goes by a number behind the target's, else by its
    own. own_heads: each module keeps a head of its own. inside: the module in which the layer
    stands, where formats are told by its name. shares_embedding: on any stage.
    """

    joins: Part = joined_plain
    norms: int = 3
    once: Part = nothing
    block: Callable[[Decoder], Decoder] = lambda decoder: decoder
    reads: Callable[[HfConfig], HfConfig] = _as_it_is
    numbered_behind: bool = True
    own_heads: bool = False
    inside: str = ""
    shares_embedding: bool = False

    def __call__(self, place: DraftPlace) -> DraftWeights:
        text, decoder = self.reads(place.text), self.block(place.decoder)
        first = place.first_number if self.numbered_behind else 0
        layers: Tensors = self.once(place)
        for module, caches in enumerate(place.blocks):
            inside = replace(place, site=place.site.at(block_path(caches)))
            layers += self.joins(inside) + place.norms(self.norms)
            facts = place.facts(first + module, caches, text, self.inside)
            layers += block_tensors(decoder, facts)
            if self.own_heads:
                layers += place.site.head(size(text, "vocab_size"), place.hidden_size)
        # Of several stages the engine looks for no embedding to share.
        keeps = place.pipelined and not self.shares_embedding
        return DraftWeights(
            layers=layers + place.rope(decoder.rope, text),
            embedding=place.embedding(),
            keeps_embedding=Keeps.ALWAYS if keeps else Keeps.NEVER,
        )


def _qwen_once(place: DraftPlace) -> Tensors:
    """A projection that NVFP4 checkpoints leave as it is, and three norms."""
    plain = place.quantization == "modelopt_fp4"
    return joined_shared(place.unquantized() if plain else place) + place.norms(3)


def _qwen4_once(place: DraftPlace) -> Tensors:
    """One projection of the token and one of each stream, and what makes one stream of them."""
    site, hidden = place.site.at("mtp"), place.hidden_size
    wide = place.text.positive("hc_count") * hidden
    return (
        *site.column("fc_embedding", hidden, hidden),
        *site.column("fc_hidden", hidden, hidden),
        *place.norms(1),
        *place.norms(1, wide),
        *stream_mixer(site, place.text, injects=False),
    )


def _qwen4(place: DraftPlace) -> DraftWeights:
    """Layers numbered behind the target's, which a checkpoint numbers from zero."""
    blocks = (
        tuple(_numbered(cache, place.first_number + number, number) for cache in block)
        for number, block in enumerate(place.blocks)
    )
    frame = Frame(joins=nothing, norms=0, once=_qwen4_once)
    return frame(replace(place, blocks=tuple(blocks)))


def _numbered(cache: CacheLayer, before: int, number: int) -> CacheLayer:
    return replace(cache, name=cache.name.replace(f".{before}.", f".{number}.", 1))


def _dots3(place: DraftPlace) -> DraftWeights:
    """Dense layers, and an embedding of their own."""
    frame = Frame(
        joins=joined_whole,
        block=lambda decoder: replace(decoder, feed_forward=dots3.dense),
        once=lambda place: place.site.vector("max_token_id", 1, INT64),
    )
    return replace(frame(place), keeps_embedding=Keeps.ALWAYS)


def _exaone_once(place: DraftPlace) -> Tensors:
    return joined_shared(place) + place.norms(3)


def _stream_projections(place: DraftPlace) -> Tensors:
    """DeepSeek V4: one matrix for the token, one for each stream, and the streams' own head."""
    hidden, streams = place.hidden_size, place.text.positive("hc_mult")
    return (
        *place.site.replicated("e_proj", hidden, hidden),
        *place.site.replicated("h_proj", hidden, hidden),
        *hyper_connections(place.site, streams, hidden, streams, 1),
    )


def _inkling_once(place: DraftPlace) -> Tensors:
    """Norms that the config may leave out."""
    section = place.text.optional_section("mtp_config")
    chained = section is not None and section.optional_boolean("chain_hidden_post_norm")
    count = bool(chained) + bool(place.text.optional_boolean("use_embed_norm"))
    return place.norms(count)


def _mimo_layer(decoder: Decoder) -> Decoder:
    """A dense layer whose output projection stays as it is."""
    assert isinstance(decoder.attention, Attention), "MiMo's own row"
    attention = replace(decoder.attention, plain_output=True)
    return replace(decoder, attention=attention, feed_forward=GATED)


def _all_sparse(key: str, value: object) -> Callable[[HfConfig], HfConfig]:
    """The config with every layer, those behind the last one too, a mixture."""

    def reads(text: HfConfig) -> HfConfig:
        count = 2 * size(text, "num_hidden_layers")
        return HfConfig({**text.values, key: [value] * count}, text.origin, text.path)

    return reads


def _step5_joins(place: DraftPlace) -> Tensors:
    """With three norms of the dtype that the config gives to norms."""
    site = step5.norm_site(place.site, place.text)
    return joined_plain(place) + site.vector("norm", place.hidden_size) * 3


def _last_kind_on(text: HfConfig) -> HfConfig:
    """The config with the kind of the last layer for those behind it."""
    kinds = text.list("mlp_layer_types")
    return text.with_value("mlp_layer_types", [*kinds, *(list(kinds[-1:]) * len(kinds))])


def _parse(place: DraftPlace) -> DraftWeights:
    """Two projections behind the decoder, whose words it shares."""
    width = place.config.section("decoder").positive("d_model")
    return DraftWeights(layers=place.site.plain("extra", width, width, bias=True) * 2)


def _mobius_experts(text: HfConfig) -> HfConfig:
    """The module's own number of experts."""
    experts = text.positive("mtp_num_experts")
    return HfConfig({**text.values, "num_experts": experts}, text.origin, text.path)


def _qwen3_5(place: DraftPlace) -> DraftWeights:
    """Layers of Qwen3.5; Mobius' rotation is not found again."""
    return _QWEN3_5(replace(place, tables={}) if place.decoder is MOBIUS else place)


def _mobius(place: DraftPlace) -> DraftWeights:
    """The same with experts of the module's own."""
    return replace(_QWEN3_5, reads=_mobius_experts)(replace(place, tables={}))


def _without(key: str) -> Callable[[HfConfig], HfConfig]:
    return lambda text: HfConfig({**text.values, key: None}, text.origin, text.path)


_QWEN: Final = Frame(joins=nothing, norms=0, once=_qwen_once, numbered_behind=False)
_QWEN3_5: Final = replace(_QWEN, block=lambda decoder: QWEN3_5)
_LATENT: Final = Frame()
MODULES: Final[Mapping[str, Callable[[DraftPlace], DraftWeights]]] = {
    **dict.fromkeys(
        (
            *("DeepSeekMTPModel", "DeepseekV32MTPModel", "Glm4MoeMTPModel", "GlmOcrMTPModel"),
            *("Glm4MoeLiteMTPModel", "MiMoMTPModel", "OpenPanguMTPModel", "HYV3MTPModel"),
        ),
        _LATENT,
    ),
    "BailingMoeV25MTPModel": Frame(shares_embedding=True),
    "BailingMoeV3MTPModel": Frame(joins=joined_whole, shares_embedding=True),
    "DeepSeekV4MTPModel": Frame(joins=_stream_projections),
    "Dots3NoteMTPModel": _dots3,
    "ErnieMTPModel": Frame(norms=2, block=lambda decoder: LLAMA),
    "ExaoneMoeMTP": Frame(
        joins=nothing,
        norms=0,
        once=_exaone_once,
        block=lambda decoder: replace(decoder, feed_forward=GATED),
        numbered_behind=False,
    ),
    "Exaone4_5_MTP": Frame(joins=nothing, norms=0, once=_exaone_once, numbered_behind=False),
    "Glm5NextMTPModel": Frame(
        block=lambda decoder: replace(decoder, beside=no_part), reads=_last_kind_on
    ),
    "HYV4MTPModel": Frame(
        block=lambda decoder: replace(decoder, beside=sinks_and_gate),
        reads=_all_sparse("mlp_layer_types", "sparse"),
    ),
    "InklingMTPModel": Frame(
        joins=joined_whole,
        norms=2,
        once=_inkling_once,
        block=lambda decoder: replace(decoder, feed_forward=GATED),
    ),
    "KimiK3MTPModel": Frame(reads=_without("attn_res_block_size")),
    "LongCatFlashMTPModel": Frame(
        joins=_joined_nameless, block=lambda decoder: replace(DEEPSEEK, feed_forward=GATED)
    ),
    **dict.fromkeys(("MiMoV2MTPModel", "MiMoV2OmniMTPModel"), Frame(block=_mimo_layer)),
    "MiniMaxM3MTP": Frame(
        joins=joined_whole,
        reads=_all_sparse("moe_layer_freq", 1),
        numbered_behind=False,
        inside="transformer_layer",
        shares_embedding=True,
    ),
    "Qwen3NextMTP": _QWEN,
    **dict.fromkeys(("Qwen3_5MTP", "Qwen3_5MoeMTP"), _qwen3_5),
    "Qwen4ExpMTP": _qwen4,
    "InternS2MobiusMTP": _mobius,
    "ParseAuxMTPModel": _parse,
    "Step3p5MTP": Frame(own_heads=True),
    "Step5MTP": Frame(joins=_step5_joins, norms=0, own_heads=True, inside="mtp_block"),
}
