"""The form of an architecture's table row, and how a row becomes layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.flags import Flag, FlagByReach, always, never, no_sink
from kvplan_cli.models.heads import HeadRule, grouped_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, ReachRule, model_wide
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    LayerStack,
    MultimodalItem,
    RunnerType,
    WholeModelDims,
)
from kvplan_cli.models.text import text_config
from kvplan_cli.values import dataclass

Part = Callable[[HfConfig], HfConfig]
SharingRule = Callable[[Language, Sequence[Reach]], Sequence[int | None]]
WholeModelRule = Callable[[Language], WholeModelDims | None]


class Layout(Protocol):
    """How a language model class lays out its attention layers."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """What the engine takes for the whole model; None, the largest of the layers."""

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""


def no_sharing(language: Language, reaches: Sequence[Reach]) -> Sequence[int | None]:
    return [None] * len(reaches)


def largest_of_layers(language: Language) -> WholeModelDims | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A stack of decoder layers with one attention layer each.

    layer_name: the engine's name of layer ``{}``. heads: heads and sizes of a layer.
    reach: what each layer attends to. sharing: for each layer, the layer whose cache it uses.
    sink, soft_cap, alibi, alibi_sqrt: what attention backends ask about. causal: an encoder has
    no cache. dims: the whole model's dimensions, where its layers do not tell. stride: decoder
    layers from one attention layer to the next. ignores_cache_config: the engine builds the
    layers without its cache settings.
    """

    layer_name: str = "model.layers.{}.self_attn.attn"
    heads: HeadRule = grouped_heads
    reach: ReachRule = model_wide
    sharing: SharingRule = no_sharing
    sink: FlagByReach = no_sink
    soft_cap: Flag = never
    alibi: Flag = never
    alibi_sqrt: Flag = never
    causal: Flag = always
    dims: WholeModelRule = largest_of_layers
    stride: int = 1
    ignores_cache_config: bool = False

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        return self.some_layers(language, range(language.num_hidden_layers))

    def some_layers(self, language: Language, indices: Sequence[int]) -> tuple[AttentionLayer, ...]:
        """The layers of ``indices``, for stacks where others have no attention."""
        reaches = self.reach(language)
        targets = self.sharing(language, reaches)
        soft_cap, alibi = self.soft_cap(language), self.alibi(language)
        alibi_sqrt = self.alibi_sqrt(language)
        causal = self.causal(language)
        made = []
        for index in indices:
            reach, target = reaches[index], targets[index]
            heads = self.heads(language, index, reach)
            layer = AttentionLayer(
                name=self._name(index),
                decoder_layer=index * self.stride,
                kind=reach.kind if causal else AttentionKind.ENCODER_ONLY,
                num_attention_heads=heads.num_attention_heads,
                num_kv_heads=heads.num_kv_heads,
                head_size=heads.head_size,
                head_size_v=heads.head_size_v or heads.head_size,
                sliding_window=reach.sliding_window,
                attention_chunk_size=reach.attention_chunk_size,
                rswa_window=reach.rswa_window,
                sink_len=reach.sink_len,
                kv_sharing_target=None if target is None else self._name(target),
                has_sink=self.sink(language, reach),
                logits_soft_cap=soft_cap,
                alibi=alibi,
                alibi_sqrt=alibi_sqrt,
                ignores_cache_config=self.ignores_cache_config,
            )
            made.append(layer)
        return tuple(made)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """What the engine takes for the whole model; None, the largest of the layers."""
        return self.dims(language)

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers * self.stride

    def _name(self, index: int) -> str:
        return self.layer_name.format(index * self.stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A language model inside a multimodal one.

    inner: the inner model's layers, or its row's name, or None where the engine takes what the
    part itself names. choose: the inner row's name where the part's keys decide it.
    prefix: what the engine puts before the inner layers' names, where it goes by the whole
    config, too.
    part: which part of the config describes it.
    """

    inner: str | Layout | None = None
    choose: Callable[[HfConfig], str] | None = None
    prefix: str | Callable[[HfConfig], str] = "language_model."
    part: Part = text_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One row: a name that ``architectures`` may hold, and what the engine makes of it.

    modalities: inputs beside text, by the engine's names, where a plan turns on them, as it
    does in prefix LMs. mm_items: the largest item of each, as in ``ArchitectureTraits``.
    is_encoder_decoder: what its config class says where the file is mute. attn_type,
    default_seq_pooling_type, default_tok_pooling_type: as in ``ArchitectureTraits``.
    is_hybrid: states beside attention, where the config does not say attention only.
    is_attention_free: states only. encoder: the layers of an encoder with a cache, where it has.
    """

    name: str
    model: Layout | Wrapped = field(default_factory=Decoder)
    runner_type: RunnerType = RunnerType.GENERATE
    supports_pp: bool = True
    is_multimodal: bool = False
    is_hybrid: bool = False
    is_attention_free: bool = False
    modalities: Callable[[HfConfig], tuple[str, ...]] | None = None
    mm_items: Callable[[HfConfig], tuple[MultimodalItem, ...]] | None = None
    is_encoder_decoder: bool = False
    attn_type: str = "decoder"
    default_seq_pooling_type: str = "LAST"
    default_tok_pooling_type: str = "ALL"
    encoder: Callable[[HfConfig], LayerStack] | None = None


def rows(model: Layout | Wrapped, *names: str, supports_pp: bool = True) -> list[Architecture]:
    """Rows of text models with one layout."""
    return [Architecture(name=name, model=model, supports_pp=supports_pp) for name in names]


def multimodal(
    model: Layout | Wrapped, *names: str, supports_pp: bool = True
) -> list[Architecture]:
    """Rows of multimodal models with one layout."""
    return [
        Architecture(name=name, model=model, supports_pp=supports_pp, is_multimodal=True)
        for name in names
    ]


def pooling(model: Layout | Wrapped, *names: str, supports_pp: bool = True) -> list[Architecture]:
    """Rows of text models that the engine runs for pooling."""
    return [
        Architecture(
            name=name, model=model, supports_pp=supports_pp, runner_type=RunnerType.POOLING
        )
        for name in names
    ]
