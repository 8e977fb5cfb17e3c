"""Decoders that run their layers several times; every round has a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.architecture import Architecture, rows
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, window_reach
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, WholeModelDims
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True)
class HrmLayout:
    """Two stacks that alternate: a low one several rounds, then a high one.

    Source: vLLM 0.33.0 ``models/hrm_text.py:HrmTextAttention``.
    """

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        high, low = (language.config.positive(key) for key in ("H_cycles", "L_cycles"))
        low_steps = [h * (low + 1) + step for h in range(high) for step in range(low)]
        high_steps = [h * (low + 1) + low for h in range(high)]
        return (
            *self._stack(language, "L_module", low_steps),
            *self._stack(language, "H_module", high_steps),
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers are alike."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        high, low = (language.config.positive(key) for key in ("H_cycles", "L_cycles"))
        return high * (low + 1) * language.config.positive("num_layers_per_stack")

    def _stack(self, language: Language, stack: str, steps: Sequence[int]) -> list[AttentionLayer]:
        heads, head_dim = language.num_attention_heads, language.head_dim
        depth = language.config.positive("num_layers_per_stack")
        return [
            AttentionLayer(
                name=f"model.{stack}.layers.{step * depth + index}.self_attn.attn",
                decoder_layer=step * depth + index,
                kind=AttentionKind.FULL,
                num_attention_heads=heads,
                num_kv_heads=heads,
                head_size=head_dim,
                head_size_v=head_dim,
                non_causal=True,
            )
            for index in range(depth)
            for step in steps
        ]


@dataclass(frozen=True, slots=True)
class LoopCoderLayout:
    """The whole stack again, with a short window from the second round on.

    Source: vLLM 0.33.0 ``models/iquest_loopcoder.py:LoopCoderAttention``.
    """

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        own = language.config.optional_integer
        rounds = own("loop_num", minimum=1) or 2
        window = own("loop_window_size", minimum=1) or 64
        first, again = window_reach(language.model_window), window_reach(window)
        return tuple(
            self._layer(language, index, turn, again if turn else first)
            for index in range(language.num_hidden_layers)
            for turn in range(rounds)
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers have the same heads."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers

    def _layer(self, language: Language, index: int, turn: int, reach: Reach) -> AttentionLayer:
        unique = turn * language.num_hidden_layers + index
        return AttentionLayer(
            name=f"model.layers.{unique}.self_attn.attn",
            decoder_layer=index,
            kind=reach.kind,
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=language.num_kv_heads,
            head_size=language.split_head_dim,
            head_size_v=language.split_head_dim,
            sliding_window=reach.sliding_window,
        )


ROWS: Final[Sequence[Architecture]] = (
    *rows(HrmLayout(), "HrmTextForCausalLM", supports_pp=False),
    *rows(LoopCoderLayout(), "IQuestLoopCoderForCausalLM", supports_pp=False),
)
