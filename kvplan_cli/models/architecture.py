"""The form of an architecture's table row, and how a row becomes layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.heads import HeadRule, grouped_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, ReachRule, model_wide
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, RunnerType
from kvplan_cli.models.text import text_config

Flag = Callable[[Language], bool]
Part = Callable[[HfConfig], HfConfig]
SharingRule = Callable[[Language, Sequence[Reach]], Sequence[int | None]]


def never(language: Language) -> bool:
    return False


def always(language: Language) -> bool:
    return True


def causal(language: Language) -> bool:
    return True


def causal_unless_switched_off(language: Language) -> bool:
    """``is_causal: false`` in the config turns a decoder into an encoder."""
    return language.config.optional_boolean("is_causal") is not False


def soft_capped(language: Language) -> bool:
    """``attn_logit_softcapping`` caps the attention's logits."""
    return bool(language.config.optional_number("attn_logit_softcapping"))


def no_sharing(language: Language, reaches: Sequence[Reach]) -> Sequence[int | None]:
    return [None] * len(reaches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """How one language model class lays out its attention layers.

    layer_name: the engine's name of layer ``{}``. heads: heads and sizes of a layer.
    reach: what each layer attends to. sharing: for each layer, the layer whose cache it uses.
    sink, soft_cap, alibi: what attention backends ask about. causal: an encoder has no cache.
    """

    layer_name: str = "model.layers.{}.self_attn.attn"
    heads: HeadRule = grouped_heads
    reach: ReachRule = model_wide
    sharing: SharingRule = no_sharing
    sink: Flag = never
    soft_cap: Flag = never
    alibi: Flag = never
    causal: Flag = causal_unless_switched_off

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        reaches = self.reach(language)
        targets = self.sharing(language, reaches)
        shared = self._flags(language)
        made = []
        for index, (reach, target) in enumerate(zip(reaches, targets, strict=True)):
            layer = self._layer(language, index, reach)
            made.append(
                replace(
                    layer,
                    has_sink=shared.sink,
                    logits_soft_cap=shared.soft_cap,
                    alibi=shared.alibi,
                    kind=reach.kind if shared.causal else AttentionKind.ENCODER_ONLY,
                    kv_sharing_target=None if target is None else self.name_of(target),
                )
            )
        return tuple(made)

    def name_of(self, index: int) -> str:
        return self.layer_name.format(index)

    def _flags(self, language: Language) -> _Flags:
        return _Flags(
            sink=self.sink(language),
            soft_cap=self.soft_cap(language),
            alibi=self.alibi(language),
            causal=self.causal(language),
        )

    def _layer(self, language: Language, index: int, reach: Reach) -> AttentionLayer:
        heads = self.heads(language, index, reach)
        return AttentionLayer(
            name=self.name_of(index),
            decoder_layer=index,
            kind=reach.kind,
            num_attention_heads=heads.num_attention_heads,
            num_kv_heads=heads.num_kv_heads,
            head_size=heads.head_size,
            head_size_v=heads.head_size if heads.head_size_v is None else heads.head_size_v,
            sliding_window=reach.sliding_window,
            attention_chunk_size=reach.attention_chunk_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    sink: bool
    soft_cap: bool
    alibi: bool
    causal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A language model inside a multimodal one.

    prefix: what the engine puts before the inner layers' names. part: which part of the config
    describes it. architecture: the inner class; None, the engine takes the part's own.
    """

    prefix: str = "language_model."
    part: Part = text_config
    architecture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One row: a name that ``architectures`` may hold, and what the engine makes of it.

    model: the layers, or which inner architecture has them.
    mm_prefix: whether multimodal tokens attend both ways, by the whole config.
    """

    name: str
    model: Decoder | Wrapped = field(default_factory=Decoder)
    runner_type: RunnerType = RunnerType.GENERATE
    supports_pp: bool = True
    is_multimodal: bool = False
